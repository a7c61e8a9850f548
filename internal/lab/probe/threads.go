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
	// maxThreads bounds the threads that are looked at: each costs two files, 10 to 15 µs.
	maxThreads = 2048
	// fullThread is the share of a processor from which on a thread has all that it can use: the
	// rest goes to interrupts and to the generator, where that shares the machine.
	fullThread = .85
)

// waitPlaces are the names of the places that threads wait in, as the kernel tells them.
var waitPlaces = []string{
	measure.TargetWaitingFutex, measure.TargetWaitingEvents, measure.TargetWaitingAccept,
	measure.TargetWaitingSocketRead, measure.TargetWaitingSocketWrite, measure.TargetWaitingPipe,
	measure.TargetWaitingSleep, measure.TargetWaitingDisk, measure.TargetWaitingFileLock,
	measure.TargetWaitingOther,
}

// channels are the kernel's wait channels by how their names begin. The kernel renames them now and
// then; a name that is not here is "other".
var channels = []struct{ begins, place string }{
	{"futex_", measure.TargetWaitingFutex},
	{"ep_poll", measure.TargetWaitingEvents},
	{"do_epoll_wait", measure.TargetWaitingEvents},
	{"do_poll", measure.TargetWaitingEvents},
	{"do_sys_poll", measure.TargetWaitingEvents},
	{"do_select", measure.TargetWaitingEvents},
	{"poll_schedule_timeout", measure.TargetWaitingEvents},
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

// threads looks at each of the target's threads: how much of a processor it uses, and where it
// waits. It is the one view of a process's inside that every language has. It is taken at the pace
// of the census.
type threads struct {
	of   *processes
	now  func() time.Time
	next time.Time
	at   time.Time // of the last look
	// used is what each thread had used then, in ticks, by its process's and its own number.
	used map[[2]int]float64
	text [1024]byte
}

func newThreads(of *processes) *threads { return &threads{of: of, now: time.Now} }

func (*threads) Name() string { return "the target's threads" }

// view is what one look at the threads shows.
type view struct {
	used             map[[2]int]float64
	hottest          float64 // share of a processor
	full, running    int
	waiting          map[string]int
	asleep, withheld int // threads that wait, and those of them of which it is not told where
	count            int
}

func (t *threads) Read(into map[string]float64) error {
	now := t.now()
	if now.Before(t.next) || t.of.lost != nil {
		return nil
	}
	before := threadTime()
	v := view{used: map[[2]int]float64{}, waiting: map[string]int{}}
	elapsed := now.Sub(t.at).Seconds()
	if t.used == nil {
		elapsed = 0
	}
	var err error
	for _, m := range t.of.members {
		if err = t.process(m.pid, elapsed, &v); err != nil {
			break
		}
	}
	first := t.used == nil
	t.used, t.at = v.used, now
	t.next = now.Add(pause(time.Duration((threadTime() - before) * float64(time.Second))))
	if err != nil {
		return err
	}
	if !first {
		into[measure.TargetThreadsHottest] = v.hottest
		into[measure.TargetThreadsFull] = float64(v.full)
	}
	into[measure.TargetThreadsRunning] = float64(v.running)
	if v.withheld > 0 && v.withheld == v.asleep {
		return errors.New("where its threads wait may not be looked at: run as the same user, " +
			"or as root")
	}
	for _, place := range waitPlaces {
		into[place] = float64(v.waiting[place])
	}
	return nil
}

// process looks at the threads of one process. elapsed are the seconds since the last look, 0 when
// there was none.
func (t *threads) process(pid int, elapsed float64, v *view) error {
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
		key := [2]int{pid, number}
		v.used[key] = s.user + s.system
		// One that is new since the last look began in between, by whatever it has used.
		if elapsed > 0 {
			share := (v.used[key] - t.used[key]) * tick / elapsed
			v.hottest = max(v.hottest, share)
			if share >= fullThread {
				v.full++
			}
		}
		t.state(filepath.Join(tasks, name), s.state, v)
	}
	return nil
}

// state counts what a thread does now.
func (t *threads) state(dir string, state byte, v *view) {
	switch state {
	case 'R':
		v.running++
	case 'D':
		v.waiting[measure.TargetWaitingDisk]++
	case 'S':
		v.asleep++
		place := t.place(dir)
		if place == "" {
			v.withheld++
		} else {
			v.waiting[place]++
		}
	}
}

// place is where a thread waits: by the kernel's wait channel, or where that is not told by the
// system call that it is in; empty when neither is told.
func (t *threads) place(dir string) string {
	text, err := readSmall(filepath.Join(dir, "wchan"), t.text[:])
	if channel := string(bytes.TrimSpace(text)); err == nil && channel != "" && channel != "0" {
		for _, c := range channels {
			if strings.HasPrefix(channel, c.begins) {
				return c.place
			}
		}
		return measure.TargetWaitingOther
	}
	text, err = readSmall(filepath.Join(dir, "syscall"), t.text[:])
	if err != nil {
		return ""
	}
	call, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	number, err := strconv.Atoi(string(call))
	if err != nil {
		return ""
	}
	if place, known := callPlaces[number]; known {
		return place
	}
	return measure.TargetWaitingOther
}
