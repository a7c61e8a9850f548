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
	// maxThreads bounds the threads that are looked at: each costs three files, 15 to 20 µs.
	maxThreads = 2048
	// threadsShare is the part of a processor that looking at threads may take: a two hundredth.
	threadsShare = 200
	// maxNames and maxFolds bound how many names of threads, or of processes, and how many places
	// that threads stand in, are distinguished: the first that are seen. What is more is theRest.
	maxNames = 24
	maxFolds = 48
	// fullThread is the share of a processor from which on a thread has all that it can use: the
	// rest goes to interrupts and to the generator, where that shares the machine.
	fullThread = .85
)

// waitPlaces are the names of the places that threads wait in, as the kernel tells them.
var waitPlaces = []string{
	measure.TargetWaitingFutex, measure.TargetWaitingEvents, measure.TargetWaitingPoll,
	measure.TargetWaitingAccept, measure.TargetWaitingSocketRead, measure.TargetWaitingSocketWrite,
	measure.TargetWaitingPipe, measure.TargetWaitingSleep, measure.TargetWaitingDisk,
	measure.TargetWaitingFileLock, measure.TargetWaitingOther,
}

// channels are the kernel's wait channels by how their names begin. The kernel renames them now and
// then; a name that is not here is "other".
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

// theRest stands for the names, places and activities beyond the bounds.
const theRest = "others"

// threads looks at each of the target's threads: how much of a processor it uses, and where it
// waits. It is the one view of a process's inside that every language has: stacks of the kernel's
// side, sampled by the clock, where no tracepoint is allowed. It looks at each sample as long as
// that takes little.
type threads struct {
	of   *processes
	now  func() time.Time
	next time.Time
	// used is what each thread had used at the last look, by its process's and its own number; base
	// is the same at a moment, a second ago or more, from which shares are computed: a tick
	// is too long for less.
	used, base *usage[[2]int]
	at         time.Time // of base
	// spent is the processor time of the threads of one name, since the first look; stood are the
	// places that threads have been seen in, which are reported as 0 when nobody is there.
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
	asleep, withheld int // threads that wait, and those of them whose place the kernel withholds
	count            int
	// elapsed are the seconds since base when this look reports shares; otherwise 0.
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
	// The scheduler may have moved this to another thread, whose clock says anything: it cannot have
	// taken longer than the time that has passed.
	cost := time.Duration((threadTime() - before) * float64(time.Second))
	cost = min(max(cost, 0), t.now().Sub(now))
	t.next = now.Add(min(threadsShare*cost, censusRarely))
	if err != nil {
		return err
	}
	return t.tell(&v, into)
}

// tell puts what a look has shown under its names.
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

// orRest is a key of a map that has room for so many, or theRest.
func orRest[V any](all map[string]V, key string, most int) string {
	if _, known := all[key]; known || len(all) < most {
		return key
	}
	return theRest
}

// called is a thread's name without what only counts it, and without what could be mistaken for
// what stands behind it in a sample's name.
func called(name string) string {
	name = printable(name)
	if short := strings.TrimRight(strings.TrimRight(name, "0123456789"), " #-_:/"); short != "" {
		return short
	}
	return name
}

// printable is a text of another program without what a terminal, or the names of samples, would
// take for something else.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == ';' || r > '~' {
			return '_'
		}
		return r
	}, text)
}

// state counts what a thread does now.
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

// place is where a thread waits: by the kernel's wait channel, or where that is not told by the
// system call that it is in; empty when neither is told. where are both as the kernel names them,
// with a semicolon between.
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
