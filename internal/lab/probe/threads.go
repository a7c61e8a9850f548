package probe

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/lab/measure"
)

const (
	// maxThreads bounds the threads to look at: each costs three files, 15 to 20 µs.
	maxThreads = 2048
	// threadsShare is the part of a processor that looking at threads may take: a two hundredth.
	threadsShare = 200
	// maxNames bounds the names of threads or processes to distinguish, and maxFolds the places of
	// threads. The first ones seen are kept; the others count as theRest.
	maxNames = 24
	maxFolds = 48
	// fullThread is the share of a processor at which a thread counts as using all it can get.
	// Interrupts take the rest, and so does the generator if it shares the machine.
	fullThread = .85
)

// waitPlaces are the names of the places where threads wait.
var waitPlaces = []string{
	measure.TargetWaitingFutex, measure.TargetWaitingEvents, measure.TargetWaitingPoll,
	measure.TargetWaitingAccept, measure.TargetWaitingSocketRead, measure.TargetWaitingSocketWrite,
	measure.TargetWaitingPipe, measure.TargetWaitingSleep, measure.TargetWaitingDisk,
	measure.TargetWaitingFileLock, measure.TargetWaitingOther,
}

// channels are the kernel's wait channels by prefix. The kernel sometimes renames them; an unknown
// name is "other".
var channels = []struct{ begins, place string }{
	{"futex_", measure.TargetWaitingFutex},
	{"ep_poll", measure.TargetWaitingEvents},
	{"do_epoll_wait", measure.TargetWaitingEvents},
	{"do_poll", measure.TargetWaitingPoll},
	{"do_sys_poll", measure.TargetWaitingPoll},
	{"do_select", measure.TargetWaitingPoll},
	{"poll_schedule_timeout", measure.TargetWaitingPoll},
	{"io_cqring_wait", measure.TargetWaitingEvents},
	{"inet_csk_accept", measure.TargetWaitingAccept},
	{"sk_wait_data", measure.TargetWaitingSocketRead},
	{"tcp_recvmsg", measure.TargetWaitingSocketRead},
	{"wait_woken", measure.TargetWaitingSocketRead},
	{"unix_stream_", measure.TargetWaitingSocketRead},
	{"__skb_wait", measure.TargetWaitingSocketRead},
	{"sk_stream_wait", measure.TargetWaitingSocketWrite},
	{"sock_alloc_send", measure.TargetWaitingSocketWrite},
	{"pipe_", measure.TargetWaitingPipe},
	{"anon_pipe_", measure.TargetWaitingPipe},
	{"hrtimer_nanosleep", measure.TargetWaitingSleep},
	{"do_nanosleep", measure.TargetWaitingSleep},
	{"io_schedule", measure.TargetWaitingDisk},
	{"folio_wait", measure.TargetWaitingDisk},
	{"wait_on_page", measure.TargetWaitingDisk},
	{"jbd2_", measure.TargetWaitingDisk},
	{"ext4_", measure.TargetWaitingDisk},
	{"xfs_", measure.TargetWaitingDisk},
	{"blk_", measure.TargetWaitingDisk},
	{"submit_bio_wait", measure.TargetWaitingDisk},
	{"flock_lock", measure.TargetWaitingFileLock},
	{"locks_lock", measure.TargetWaitingFileLock},
	{"fcntl_setlk", measure.TargetWaitingFileLock},
}

// call is a system call in which threads wait.
type call struct{ name, place string }

// theRest stands for the names, places and activities beyond the limits.
const theRest = "others"

// threads looks at each of the target's threads: how much processor time it uses, and where it
// waits. This view of a process works for every language: kernel-side stacks, sampled by the clock,
// without tracepoints. It looks at every sample as long as that is cheap.
type threads struct {
	of   *processes
	now  func() time.Time
	next time.Time
	// used is what each thread had used at the last look, by process and thread number. base is the
	// same for a moment a second or more ago, and shares are computed from it: a tick is too coarse
	// for less.
	used, base *usage[[2]int]
	at         time.Time // of base
	// spent is the processor time by thread name since the first look. stood are the places in
	// which threads have been seen; an empty place is reported as 0.
	spent map[string]float64
	stood map[string]bool
	text  [1024]byte
}

func newThreads(of *processes) *threads {
	return &threads{
		of:    of,
		now:   time.Now,
		spent: make(map[string]float64),
		stood: make(map[string]bool),
	}
}

func (*threads) Name() string { return "the target's threads" }

// view is what one look at the threads shows.
type view struct {
	used             *usage[[2]int]
	hottest          float64 // share of a processor
	full, running    int
	waiting, folds   map[string]int
	asleep, withheld int // waiting threads, and those whose place the kernel withholds
	count            int
	// elapsed is the seconds since base if this look reports shares; otherwise 0.
	elapsed float64
}

func (t *threads) Read(into map[string]float64) error {
	now := t.now()
	if now.Before(t.next) || t.of.lost != nil {
		return nil
	}
	before := threadTime()
	v := view{
		used: usageAfter(t.used), waiting: map[string]int{}, folds: map[string]int{},
	}
	if t.base != nil && now.Sub(t.at) >= censusEvery {
		v.elapsed = now.Sub(t.at).Seconds()
	}
	var err error
	for _, m := range t.of.members {
		if err = t.process(m.pid, &v); err != nil {
			break
		}
	}
	t.used = v.used
	if t.base == nil || v.elapsed > 0 {
		t.base, t.at = v.used, now
	}
	// The scheduler may have moved this goroutine to another thread, with an unrelated clock. The
	// cost cannot exceed the time that has passed.
	cost := time.Duration((threadTime() - before) * float64(time.Second))
	cost = min(max(cost, 0), t.now().Sub(now))
	t.next = now.Add(min(threadsShare*cost, censusRarely))
	if err != nil {
		return err
	}
	return t.tell(&v, into)
}

// tell puts the results of a look under their names.
func (t *threads) tell(v *view, into map[string]float64) error {
	if v.elapsed > 0 {
		into[measure.TargetThreadsHottest] = v.hottest
		into[measure.TargetThreadsFull] = float64(v.full)
	}
	into[measure.TargetThreadsRunning] = float64(v.running)
	for name, seconds := range t.spent {
		into[measure.ThreadsCPU+name] = seconds
	}
	if v.withheld > 0 && v.withheld == v.asleep {
		return errors.New("where its threads wait may not be looked at: run as the same user, " +
			"or as root")
	}
	for _, place := range waitPlaces {
		into[place] = float64(v.waiting[place])
	}
	for fold := range t.stood {
		into[measure.ThreadsAt+fold] = float64(v.folds[fold])
	}
	return nil
}

// process looks at the threads of one process.
func (t *threads) process(pid int, v *view) error {
	tasks := filepath.Join(t.of.root, strconv.Itoa(pid), "task")
	names, err := list(tasks, maxThreads+1)
	if err != nil {
		return nil // it has ended
	}
	if v.count += len(names); v.count > maxThreads {
		return fmt.Errorf("it has more than %d threads, which are too many to look at each",
			maxThreads)
	}
	for _, name := range names {
		number, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := readSmall(filepath.Join(tasks, name, "stat"), t.text[:])
		if err != nil {
			continue
		}
		s, ok := parseStat(text)
		if !ok {
			continue
		}
		t.spend([2]int{pid, number}, &s, v)
		t.state(filepath.Join(tasks, name), &s, v)
	}
	return nil
}

// spend adds up what a thread has used.
func (t *threads) spend(key [2]int, s *stat, v *view) {
	ticks := s.user + s.system
	v.used.add(key, ticks, s.start)
	name, since := orRest(t.spent, called(s.name), maxNames), 0.0
	if t.used != nil {
		since = t.used.since(key, ticks, s.start) * tick
	}
	t.spent[name] += since
	if v.elapsed > 0 {
		share := t.base.since(key, ticks, s.start) * tick / v.elapsed
		v.hottest = max(v.hottest, share)
		if share >= fullThread {
			v.full++
		}
	}
}

// orRest returns key if it is in the map or the map has room for it, otherwise theRest.
func orRest[V any](all map[string]V, key string, most int) string {
	if _, known := all[key]; known || len(all) < most {
		return key
	}
	return theRest
}

// called returns a thread's name without trailing numbers, and without characters that have a
// meaning in a sample's name.
func called(name string) string {
	name = printable(name)
	if short := strings.TrimRight(strings.TrimRight(name, "0123456789"), " #-_:/"); short != "" {
		return short
	}
	return name
}

// printable returns another program's text without characters that have a meaning for a terminal or
// in the names of samples.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == ';' || r > '~' {
			return '_'
		}
		return r
	}, text)
}

// state counts the current state of a thread.
func (t *threads) state(dir string, s *stat, v *view) {
	place, where := "", ""
	switch s.state {
	case 'R':
		v.running++
		place = "running"
	case 'S', 'D':
		if place, where = t.place(dir); s.state == 'D' {
			place = measure.TargetWaitingDisk
		} else if v.asleep++; place == "" {
			v.withheld++
			return
		}
		v.waiting[place]++
	default:
		return // it has ended, or is stopped
	}
	kind := strings.TrimPrefix(place, measure.ThreadsWaiting)
	fold := called(s.name) + ";" + kind + ";" + where
	if !t.stood[fold] {
		fold = orRest(t.stood, fold, maxFolds)
		t.stood[fold] = true
	}
	v.folds[fold]++
}

// place returns the kind of place where a thread waits: from the kernel's wait channel or, without
// one, from its system call; empty if neither is known. where is the kernel's names of both,
// separated by a semicolon.
func (t *threads) place(dir string) (place, where string) {
	channel, in := "", ""
	text, err := readSmall(filepath.Join(dir, "wchan"), t.text[:])
	if name := string(bytes.TrimSpace(text)); err == nil && name != "0" {
		channel, _, _ = strings.Cut(name, ".") // the compiler adds ".constprop.0" and the like
	}
	text, err = readSmall(filepath.Join(dir, "syscall"), t.text[:])
	word, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	if number, isNumber := strconv.Atoi(string(word)); err == nil && isNumber == nil {
		known := false
		var c call
		if c, known = calls[number]; !known {
			c = call{"call " + string(word), measure.TargetWaitingOther}
		}
		in, place = c.name, c.place
	}
	if channel != "" {
		place = measure.TargetWaitingOther
		for _, c := range channels {
			if strings.HasPrefix(channel, c.begins) {
				place = c.place
				break
			}
		}
	}
	return place, in + ";" + channel
}
