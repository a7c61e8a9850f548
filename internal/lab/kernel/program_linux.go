package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// programs are eBPF programs attached to tracepoints, with their maps.
type programs struct {
	collection *ebpf.Collection
	links      []link.Link
}

// load loads programs into the kernel and attaches each one to the tracepoint of the same name. Its
// error is for humans.
func load(maps map[string]*ebpf.MapSpec, bodies map[string]asm.Instructions) (*programs, error) {
	spec := &ebpf.CollectionSpec{Maps: maps, Programs: make(map[string]*ebpf.ProgramSpec)}
	for name, m := range maps {
		m.Name = name
	}
	for tracepoint, body := range bodies {
		spec.Programs[tracepoint] = &ebpf.ProgramSpec{
			Name:         tracepoint,
			Type:         ebpf.Tracing,
			AttachType:   ebpf.AttachTraceRawTp,
			AttachTo:     tracepoint,
			Instructions: body,
			// The kernel offers its clock and its memory only to programs with a license that is
			// compatible with the GPL.
			License: "Dual MIT/GPL",
		}
	}
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, explain(err)
	}
	p := &programs{collection: collection}
	for _, program := range collection.Programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			p.Close()
			return nil, explain(err)
		}
		p.links = append(p.links, l)
	}
	return p, nil
}

// Close detaches the programs and frees everything.
func (p *programs) Close() error {
	var failed error
	for _, l := range p.links {
		failed = errors.Join(failed, l.Close())
	}
	p.collection.Close()
	return failed
}

// explain says what to do if programs could not be loaded.
func explain(err error) error {
	var refused *ebpf.VerifierError
	switch {
	case errors.As(err, &refused) && len(refused.Log) > 0:
		return fmt.Errorf("this kernel's tracepoints or types differ from those of Linux "+
			"5.18 and later: %w", refused)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return errors.New("eBPF programs may not be loaded: run as root, " +
			"or with CAP_BPF and CAP_PERFMON (a container needs both, and a seccomp profile " +
			"that allows bpf)")
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, fs.ErrNotExist),
		errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("this kernel lacks what eBPF programs on tracepoints need, "+
			"Linux 5.18 or later with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF: %w", err)
	}
	return err
}

// kernelTypes returns the types of the running kernel.
func kernelTypes() (*btf.Spec, error) {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, explain(err)
	}
	return types, nil
}

// offset returns the offset of a field in one of the kernel's structures, in bytes. The path leads
// through fields that are structures or unions.
func offset(types *btf.Spec, structure string, path ...string) (int16, error) {
	var s *btf.Struct
	if err := types.TypeByName(structure, &s); err != nil {
		return 0, fmt.Errorf("this kernel's types have no struct %s: %w", structure, err)
	}
	var at btf.Type = s
	var sum uint32
	for _, name := range path {
		o, inner, ok := field(at, name, 0)
		if !ok {
			return 0, fmt.Errorf("this kernel's struct %s has no field %v", structure, path)
		}
		sum, at = sum+o, inner
	}
	if sum > math.MaxInt16 {
		return 0, fmt.Errorf("this kernel's struct %s has %v too far behind for a program to reach",
			structure, path)
	}
	return int16(sum), nil
}

// field finds a field by name, including fields of unnamed structures and unions. Its depth limit
// is larger than any kernel needs.
func field(in btf.Type, name string, depth int) (at uint32, of btf.Type, ok bool) {
	if depth > 8 {
		return 0, nil, false
	}
	var members []btf.Member
	switch t := btf.UnderlyingType(in).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		if m.Name == name && m.BitfieldSize == 0 {
			return m.Offset.Bytes(), m.Type, true
		}
		if m.Name == "" {
			if o, inner, ok := field(m.Type, name, depth+1); ok {
				return m.Offset.Bytes() + o, inner, true
			}
		}
	}
	return 0, nil, false
}
