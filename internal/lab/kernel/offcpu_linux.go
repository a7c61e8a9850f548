package kernel

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

const (
	// maxTracked is the maximum number of living threads whose time is added up.
	maxTracked = 4096
	// membersEvery is after how many readings the target's processes are searched again: a search
	// reads a file for each process of the machine.
	membersEvery = 16
	// taskDead is the state in which a thread leaves its processor for the last time.
	taskDead = 0x80
	// firstPIDNamespace is the machine's initial PID namespace. Its inode is a constant of the
	// kernel.
	firstPIDNamespace = "pid:[4026531836]"
)

// idle is the time of one thread, or of all ended threads, as stored by the programs.
type idle struct {
	Runnable, Waiting uint64 // nanoseconds
	// Since is when the thread left its processor, in nanoseconds of the monotonic clock; 0 while
	// it has one. Its last bit is 1 if the thread could run. It is the last field because the
	// kernel copies from the front: a thread that returns during the copy is missed for one
	// reading, and never counted twice. For the ended threads, Since counts the threads that were
	// never tracked because there were too many.
	Since uint64
}

const (
	atRunnable = 0
	atWaiting  = 8
	atSince    = 16
	idleSize   = 24
)

// offCPU reports the time that the target's threads spend without a processor.
//
// Three steps change a thread's entry. All of them hold the lock of the processor's run queue, so
// they never run at once:
//   - it leaves its processor (sched_switch, prev): Since is set;
//   - it is woken (sched_wakeup): the time so far counts as waiting, and from now on it can run;
//   - it gets a processor (sched_switch, next): the time since then is added, and Since is 0.
//
// A thread that ends adds its sums to those of the ended threads. A thread is tracked from the
// first time it leaves a processor after the opening.
type offCPU struct {
	*programs
	target  *target
	members map[int]uint64 // the processes that the programs watch, with their start times
	fresh   int            // readings until members is read again
	threads []uint32
	times   []idle
	// runnable and waiting are the highest sums so far: if a reading misses a thread, the next one
	// has it.
	runnable, waiting uint64
}

func (*offCPU) Name() string { return "time off the processor" }

func newOffCPU(t *target) (*offCPU, error) {
	o := &offCPU{target: t}
	// The programs see the process numbers of the whole machine.
	if own, err := os.Readlink("/proc/self/ns/pid"); err != nil || own != firstPIDNamespace {
		return o, errors.New("processes have other numbers in this container than on the " +
			"machine: run outside of it, or in the machine's PID namespace (docker run --pid=host)")
	}
	types, err := kernelTypes()
	if err != nil {
		return o, err
	}
	tgid, err := offset(types, "task_struct", "tgid")
	if err != nil {
		return o, err
	}
	pid, err := offset(types, "task_struct", "pid")
	if err != nil {
		return o, err
	}
	maps := map[string]*ebpf.MapSpec{
		"targets": {Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: maxProcesses},
		"threads": {Type: ebpf.Hash, KeySize: 4, ValueSize: idleSize, MaxEntries: maxTracked},
		"ended":   {Type: ebpf.Array, KeySize: 4, ValueSize: idleSize, MaxEntries: 1},
	}
	o.programs, err = load(maps, map[string]asm.Instructions{
		"sched_switch": onSwitch(tgid, pid),
		"sched_wakeup": onWakeup(tgid, pid),
	})
	if err != nil {
		return o, err
	}
	o.threads, o.times = make([]uint32, maxTracked), make([]idle, maxTracked)
	if err := o.follow(); err != nil {
		o.Close()
		return o, err
	}
	return o, nil
}

// follow tells the programs which processes are the target's now.
func (o *offCPU) follow() error {
	o.fresh = membersEvery - 1
	members, err := o.target.members()
	if err != nil {
		return err
	}
	targets := o.collection.Maps["targets"]
	for pid := range o.members {
		if members[pid] != o.members[pid] {
			if err := targets.Delete(uint32(pid)); err != nil {
				return err
			}
		}
	}
	for pid, start := range members {
		if o.members[pid] == start {
			continue
		}
		if err := targets.Put(uint32(pid), uint32(1)); err != nil {
			return err
		}
	}
	o.members = members
	return nil
}

func (o *offCPU) Read(into map[string]float64) error {
	if err := o.target.check(); err != nil {
		return err
	}
	if o.fresh--; o.fresh < 0 {
		if err := o.follow(); err != nil {
			return err
		}
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	// Ended threads come first: a thread that ends between the two lookups is missed in this
	// reading.
	var sum idle
	if err := o.collection.Maps["ended"].Lookup(uint32(0), &sum); err != nil {
		return err
	}
	if sum.Since > 0 {
		return fmt.Errorf("it has had more than %d threads at once", maxTracked)
	}
	var cursor ebpf.MapBatchCursor
	n, err := o.collection.Maps["threads"].BatchLookup(&cursor, o.threads, o.times, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	for _, t := range o.times[:n] {
		sum.add(t, uint64(now.Nano()))
	}
	o.runnable, o.waiting = max(o.runnable, sum.Runnable), max(o.waiting, sum.Waiting)
	into[measure.BPFOffCPURunnable] = float64(o.runnable) / 1e9
	into[measure.BPFOffCPUWaiting] = float64(o.waiting) / 1e9
	return nil
}

// add adds a thread's sums, and the time since it left its processor.
func (i *idle) add(t idle, now uint64) {
	i.Runnable, i.Waiting = i.Runnable+t.Runnable, i.Waiting+t.Waiting
	if t.Since == 0 || t.Since >= now {
		return
	}
	if t.Since&1 == 1 {
		i.Runnable += now - t.Since
	} else {
		i.Waiting += now - t.Since
	}
}

// Offsets of the programs' variables on the stack.
const (
	keyTGID = -4
	keyTID  = -8
	keyZero = -12
	fresh   = -40 // an idle
)

// find looks up a task's thread in the map of threads. Register 7 has the task; afterwards register
// 9 has the entry. It goes to none if the task is not the target's, and to unknown, with the keys
// on the stack, if the thread has no entry.
func find(tgid, pid int16, none, unknown string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R7, tgid, asm.Word),
		asm.StoreMem(asm.RFP, keyTGID, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.R7, pid, asm.Word),
		asm.StoreMem(asm.RFP, keyTID, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, 0).WithReference("targets"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyTGID),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, none),
		asm.LoadMapPtr(asm.R1, 0).WithReference("threads"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyTID),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, unknown),
		asm.Mov.Reg(asm.R9, asm.R0),
	}
}

// ended loads the address of the ended threads' entry into register 0.
func ended(none string) asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, keyZero, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, 0).WithReference("ended"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyZero),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, none),
	}
}

// track creates an entry for the thread whose key is on the stack, and loads its address into
// register 9. If there is no room, it counts that and goes to none.
func track(none string) asm.Instructions {
	p := asm.Instructions{
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, fresh+atRunnable, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, fresh+atWaiting, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, fresh+atSince, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, 0).WithReference("threads"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyTID),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, fresh),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "tracked"),
	}
	p = append(p, ended(none)...)
	return append(p,
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, atSince),
		asm.Ja.Label(none),
		asm.LoadMapPtr(asm.R1, 0).WithReference("threads").WithSymbol("tracked"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyTID),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, none),
		asm.Mov.Reg(asm.R9, asm.R0),
	)
}

// bury adds the entry in register 9 to that of the ended threads, deletes the thread's entry and
// goes to done.
func bury(done string) asm.Instructions {
	p := ended(done)
	return append(p,
		asm.LoadMem(asm.R1, asm.R9, atRunnable, asm.DWord),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, atRunnable),
		asm.LoadMem(asm.R1, asm.R9, atWaiting, asm.DWord),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, atWaiting),
		asm.LoadMapPtr(asm.R1, 0).WithReference("threads"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyTID),
		asm.FnMapDeleteElem.Call(),
		asm.Ja.Label(done),
	)
}

// onSwitch is the program for sched_switch(bool preempt, struct task_struct *prev, struct
// task_struct *next, unsigned int prev_state).
func onSwitch(tgid, pid int16) asm.Instructions {
	const preempt, prev, next, prevState = 0, 8, 16, 24
	p := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R8, asm.R6, prevState, asm.DWord),
		asm.LoadMem(asm.R7, asm.R6, prev, asm.DWord),
	}
	p = append(p, find(tgid, pid, "arrive", "untracked")...)
	p = append(p,
		asm.JNE.Imm(asm.R8, taskDead, "leave"),
	)
	p = append(p, bury("arrive")...)
	p = append(p, asm.JEq.Imm(asm.R8, taskDead, "arrive").WithSymbol("untracked"))
	p = append(p, track("arrive")...)
	p = append(p,
		asm.FnKtimeGetNs.Call().WithSymbol("leave"),
		asm.Or.Imm(asm.R0, 1),
		asm.JEq.Imm(asm.R8, 0, "since"),
		asm.LoadMem(asm.R1, asm.R6, preempt, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "since"),
		asm.Xor.Imm(asm.R0, 1),
		asm.StoreMem(asm.R9, atSince, asm.R0, asm.DWord).WithSymbol("since"),
		asm.LoadMem(asm.R7, asm.R6, next, asm.DWord).WithSymbol("arrive"),
	)
	p = append(p, find(tgid, pid, "exit", "exit")...)
	return append(p,
		asm.LoadMem(asm.R8, asm.R9, atSince, asm.DWord),
		asm.JEq.Imm(asm.R8, 0, "exit"),
		asm.FnKtimeGetNs.Call(),
		asm.Sub.Reg(asm.R0, asm.R8),
		asm.JSLT.Imm(asm.R0, 0, "settled"),
		asm.JSet.Imm(asm.R8, 1, "ran late"),
		asm.LoadMem(asm.R1, asm.R9, atWaiting, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.StoreMem(asm.R9, atWaiting, asm.R1, asm.DWord),
		asm.Ja.Label("settled"),
		asm.LoadMem(asm.R1, asm.R9, atRunnable, asm.DWord).WithSymbol("ran late"),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.StoreMem(asm.R9, atRunnable, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("settled"),
		asm.StoreMem(asm.R9, atSince, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	)
}

// onWakeup is the program for sched_wakeup(struct task_struct *p).
func onWakeup(tgid, pid int16) asm.Instructions {
	p := asm.Instructions{asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord)}
	p = append(p, find(tgid, pid, "exit", "exit")...)
	return append(p,
		asm.LoadMem(asm.R8, asm.R9, atSince, asm.DWord),
		asm.JEq.Imm(asm.R8, 0, "exit"),
		asm.JSet.Imm(asm.R8, 1, "exit"),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.Or.Imm(asm.R2, 1),
		asm.Sub.Reg(asm.R0, asm.R8),
		asm.JSLT.Imm(asm.R0, 0, "exit"),
		asm.LoadMem(asm.R1, asm.R9, atWaiting, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.StoreMem(asm.R9, atWaiting, asm.R1, asm.DWord),
		asm.StoreMem(asm.R9, atSince, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	)
}
