package diagnose

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// written is what the service writes for each request at one load.
type written struct {
	// calls and bytes are those of write(2) and its kin, without the answer if it went that way.
	calls, bytes float64
	all          float64 // the bytes with it
	// unclear says that it is not clear whether it did.
	unclear bool
	// asked is how many questions were answered: each took a call.
	asked float64
	// files are those that grow, in words, and grown is by how many bytes; logs and logged are
	// the same of those among them that look like logs.
	files, logs   string
	grown, logged float64
}

// An answer was written by write(2) if what is written beside the files is at least mostlyAnswer of
// its bytes. It was not, but sent by send(2) or sendfile(2), if that is less than notAnswer.
const mostlyAnswer, notAnswer = .9, .7

// written returns what is written for each request at a load.
func (e *Evidence) written(m *Moment) *written {
	w := &written{
		calls: m.PerRequest(measure.TargetWrites),
		bytes: m.PerRequest(measure.TargetWrittenBytes),
		asked: e.askedAt(m),
	}
	w.all = w.bytes
	w.files, w.grown = m.grows(func(path string) bool { return !ofDatabase(path) })
	w.logs, w.logged = m.grows(func(path string) bool {
		return !ofDatabase(path) && (m.Max(measure.TargetOutputFile+path) > 0 || namedLog(path))
	})
	answer := m.answerBytes()
	switch beside := w.bytes - w.grown; {
	case answer == 0:
	case beside >= mostlyAnswer*answer:
		w.calls, w.bytes = max(w.calls-1, 0), max(w.bytes-answer, w.grown)
	default:
		w.unclear = beside >= notAnswer*answer
	}
	return w
}

// answerBytes returns how many bytes the client gets for each request that is answered.
func (m *Moment) answerBytes() float64 {
	if m == nil {
		return 0
	}
	t := &m.Step.Totals
	return float64(t.BytesIn) / max(float64(t.Ended.Answered()), 1)
}

// askedAt returns how many questions are answered for each request at a load, by all addresses.
func (e *Evidence) askedAt(m *Moment) (sum float64) {
	for _, at := range e.sampledOf(measure.OutgoingExchanges) {
		if m == e.AtLine {
			sum += e.exchanged(at, nearLine).each()
		} else {
			sum += m.PerRequest(measure.OutgoingExchanges + at)
		}
	}
	return sum
}

// asksUncounted reports whether the service asks others of whom it is not known how often: over
// Unix sockets, or over TCP where the kernel does not tell. A name server is asked less than once.
func (e *Evidence) asksUncounted() bool {
	counted := e.sampledOf(measure.OutgoingExchanges)
	return slices.ContainsFunc(e.sampledOf(measure.OutgoingTo), func(to string) bool {
		return !slices.Contains(counted, to) && !strings.HasSuffix(to, ":53")
	})
}

// asksOverPipes reports whether a process of the service waits for what another one writes to a
// pipe or a pair of sockets, as helpers and pools of processes do.
func (e *Evidence) asksOverPipes() bool {
	return slices.ContainsFunc(e.sampledOf(measure.ThreadsCPU), func(thread string) bool {
		return e.readsPipes(thread) != ""
	})
}

// grows returns which files of a kind grow, in words, and by how many bytes for each request: the
// one that grows most is named. Each worker may have its own.
func (m *Moment) grows(kind func(path string) bool) (files string, each float64) {
	most, others := 0.0, -1
	for _, name := range slices.Sorted(maps.Keys(m.last())) {
		path, is := strings.CutPrefix(name, measure.TargetAppended)
		n := m.PerRequest(name)
		if !is || n == 0 || !kind(path) {
			continue
		}
		if n > most {
			files, most = path, n
		}
		each, others = each+n, others+1
	}
	if others > 0 {
		files = fmt.Sprintf("%s and %d more", files, others)
	}
	return files, each
}

var (
	// noLogs are words with "log" that are about something else, or about the log of a database.
	noLogs = regexp.MustCompile(`catalog|\bblog|dialog|analog|backlog|prolog|epilog|login|logo|` +
		`logic|logist|binlog|oplog|commitlog|redolog|undolog|changelog|translog|walog|ology|genealog|\bwal\.log`)
	// numbered is the name of the log of a store that keeps everything in such files: LevelDB,
	// RocksDB, Kafka.
	numbered = regexp.MustCompile(`^[0-9]+\.log$`)
	// logFolder is a folder with logs in a path.
	logFolder = regexp.MustCompile(`\blogs?\b`)
	// database is the end of the name of a file that SQLite writes to.
	database = regexp.MustCompile(`\.(db|sqlite3?)(-wal|-journal|-shm)?$|-(wal|journal)$`)
)

// ofDatabase reports whether a file is SQLite's, by its name. It writes at a place of its choice,
// so that the file does not appear to grow, unless it was built for systems that cannot.
func ofDatabase(path string) bool { return database.MatchString(strings.ToLower(path)) }

// namedLog reports whether a path looks like that of a log.
func namedLog(path string) bool {
	path = strings.ToLower(path)
	// An underscore is part of a word to regexp.
	folder, name := filepath.Split(strings.ReplaceAll(path, "_", "-"))
	if numbered.MatchString(name) {
		return false
	}
	if strings.Contains(noLogs.ReplaceAllString(name, ""), "log") {
		return true
	}
	switch filepath.Ext(name) {
	case ".log", ".txt", ".json":
		return logFolder.MatchString(folder)
	}
	return false
}
