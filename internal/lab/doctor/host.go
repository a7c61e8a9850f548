package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
)

type systemDescriptors struct{ used, most float64 }

func readSystemDescriptors(s *subject) (d systemDescriptors, err error) {
	text, err := s.text("proc/sys/fs/file-nr")
	if err != nil {
		return d, err
	}
	if _, err := fmt.Sscanf(text, "%f %f %f", &d.used, new(float64), &d.most); err != nil ||
		d.most <= 0 {
		return d, fmt.Errorf("%q is not understood", text)
	}
	return d, nil
}

func judgeSystemDescriptors(s *subject, d systemDescriptors) opinion {
	o := opinion{
		value: fmt.Sprintf("%.0f of %.0f", d.used, d.most),
		why:   "all programs together are far from it",
	}
	if d.used > .8*d.most {
		o.advise, o.recommended = true, fmt.Sprintf("%.0f", 2*d.most)
		o.why = fmt.Sprintf("%.0f %% of what all programs together may open is open: "+
			"beyond it no program can open anything", 100*d.used/d.most)
		o.command = sysctl("fs.file-max", o.recommended)
	}
	return o
}

// swap is how eagerly the kernel swaps, and how much is swapped.
type swap struct {
	eager             int
	total, used       float64 // bytes
	process, resident float64 // of the process
}

func readSwap(s *subject) (w swap, err error) {
	text, err := s.text("proc/sys/vm/swappiness")
	if err != nil {
		return w, err
	}
	if w.eager, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
		return w, fmt.Errorf("%q is not understood", text)
	}
	free, err1 := s.memory("SwapFree")
	total, err2 := s.memory("SwapTotal")
	if err := errors.Join(err1, err2); err != nil {
		return w, fmt.Errorf("what is swapped cannot be read: %w", err)
	}
	w.total, w.used = total, max(0, total-free)
	if s.pid != 0 {
		w.process, _ = kilobytes(s.status("VmSwap")) // a kernel thread has none
		w.resident = s.values[measure.TargetRSS]
	}
	return w, nil
}

// littleSwap is an amount that the kernel may have swapped from a process that never needs it
// again, such as memory used only at its start.
const littleSwap = 1e6

func judgeSwap(s *subject, w swap) opinion {
	o := opinion{
		value: strconv.Itoa(w.eager),
		why:   "the machine has no swap, so it makes no difference",
	}
	if w.total == 0 {
		return o
	}
	o.value = fmt.Sprintf("%d, %s of %s swapped",
		w.eager, format.Bytes(w.used), format.Bytes(w.total))
	o.why = "nothing that matters is swapped"
	victim := ""
	switch {
	case w.process > max(littleSwap, w.resident/100):
		victim = fmt.Sprintf("%s of the process", format.Bytes(w.process))
	case s.pid == 0 && w.used > .1*w.total:
		victim = fmt.Sprintf("%s of programs", format.Bytes(w.used))
	}
	if victim != "" && w.eager > 10 {
		o.advise, o.recommended, o.command = true, "10", sysctl("vm.swappiness", "10")
		o.why = victim + " are swapped: a request that needs them waits for the disk, " +
			"and a garbage collector comes by all of them. 10 keeps them in memory as long as " +
			"there are files to drop; if it goes on, the machine has too little memory"
	}
	return o
}

// hugePages are the kernel's settings for transparent huge pages.
type hugePages struct {
	enabled, defrag string
	fill            int // khugepaged's max_ptes_none: -1 if unknown
}

func readHugePages(s *subject) (h hugePages, err error) {
	const folder = "sys/kernel/mm/transparent_hugepage/"
	text, err := s.text(folder + "enabled")
	if err != nil {
		return h, err
	}
	h.enabled, h.fill = chosen(text), -1
	if text, err := s.text(folder + "defrag"); err == nil {
		h.defrag = chosen(text)
	}
	if text, err := s.text(folder + "khugepaged/max_ptes_none"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			h.fill = n
		}
	}
	if h.enabled == "" {
		return h, fmt.Errorf("%q is not understood", text)
	}
	return h, nil
}

// chosen is the word in brackets of "always [madvise] never".
func chosen(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	word, _, _ := strings.Cut(rest, "]")
	return format.Clean(strings.TrimSpace(word))
}

func judgeHugePages(s *subject, h hugePages) opinion {
	const folder = "/sys/kernel/mm/transparent_hugepage/"
	o := opinion{value: h.enabled, why: "programs that gain by them ask for them"}
	if h.defrag != "" {
		o.value += ", defrag " + h.defrag
	}
	switch {
	case h.enabled == "always" && h.defrag == "always":
		o.advise = true
		o.recommended = "defrag defer+madvise"
		o.command = "echo defer+madvise > " + folder + "defrag"
		o.why = "a page fault may wait, in the middle of a request, until the kernel has moved " +
			"memory about to make a huge page"
	case h.enabled == "always" && h.fill > 0 && s.built != nil:
		o.advise = true
		o.recommended = "max_ptes_none 0"
		o.command = "echo 0 > " + folder + "khugepaged/max_ptes_none"
		o.why = fmt.Sprintf("the kernel makes huge pages of ranges of which %d of 512 pages are "+
			"unused, so that memory which Go has given back comes back again (Go's guide to its "+
			"collector says so)", h.fill)
	case h.enabled == "always":
		o.why = "fewer misses of the TLB; memory that is hardly used may take more than it needs"
	}
	return o
}

// nodes are the NUMA nodes with their processors.
type nodes struct{ online []string }

func readNodes(s *subject) (n nodes, err error) {
	text, err := s.text("sys/devices/system/node/online")
	if errors.Is(err, fs.ErrNotExist) {
		return nodes{[]string{""}}, nil // a kernel that knows only one node
	}
	if err != nil {
		return n, err
	}
	for i := range 256 {
		if listed(strings.TrimSpace(text), i) {
			cpus, err := s.text(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i))
			if err != nil {
				return n, err
			}
			n.online = append(n.online, strings.TrimSpace(cpus))
		}
	}
	if len(n.online) == 0 {
		return n, fmt.Errorf("%q is not understood", text)
	}
	return n, nil
}

func judgeNodes(s *subject, n nodes) opinion {
	o := opinion{
		value: strconv.Itoa(len(n.online)),
		why:   "all memory is equally near to all processors",
	}
	if len(n.online) < 2 {
		return o
	}
	o.why = "name a process, to see whether it is spread over them"
	if s.pid == 0 {
		return o
	}
	allowed, within := s.status("Cpus_allowed_list"), 0
	for _, cpus := range n.online {
		if overlap(allowed, cpus) {
			within++
		}
	}
	o.why = "the process stays on one of them"
	if within > 1 {
		o.advise, o.recommended = true, fmt.Sprintf("a process for each of %d nodes", within)
		o.why = fmt.Sprintf("the process may run on %d of them, and half or more of its memory "+
			"is then on another one, which takes half as long again to reach, "+
			"and longer where locks are contended", within)
		o.command = "numactl --cpunodebind=0 --membind=0 COMMAND # and one more process for " +
			"each other node"
	}
	return o
}

// overlap reports whether two lists such as "0-3,8" have a number in common.
func overlap(a, b string) bool {
	for i := range 4096 {
		if listed(a, i) && listed(b, i) {
			return true
		}
	}
	return false
}

type clock struct {
	current   string
	available []string
}

func readClock(s *subject) (c clock, err error) {
	const folder = "sys/devices/system/clocksource/clocksource0/"
	text, err := s.text(folder + "current_clocksource")
	if err != nil {
		return c, err
	}
	c.current = format.Clean(strings.TrimSpace(text))
	if text, err := s.text(folder + "available_clocksource"); err == nil {
		c.available = strings.Fields(text)
	}
	return c, nil
}

func judgeClock(s *subject, c clock) opinion {
	o := opinion{value: c.current, why: "it is read without a system call"}
	switch c.current {
	case "hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen":
		o.why = "each reading of the time is a system call, of a microsecond and more where " +
			"others take 20 ns; servers read it several times a request"
		for _, better := range []string{"tsc", "kvm-clock", "arch_sys_counter"} {
			if slices.Contains(c.available, better) {
				o.advise, o.recommended = true, better
				o.command = "echo " + better +
					" > /sys/devices/system/clocksource/clocksource0/current_clocksource"
				break
			}
		}
		if !o.advise {
			o.why += ". This machine has no better one: the kernel found its tsc unreliable, " +
				"as `dmesg | grep -i tsc` says"
		}
	}
	return o
}
