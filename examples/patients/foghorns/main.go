// Command foghorns hands out the log of a foghorn of the last day as a gzip file. It makes a
// gzip.Writer for each file, and a new one allocates 800 kB for its window and its tables, far more
// than the log is; so the collector runs again and again, and marks all logs each time. Only pprof
// is shown.
//
// Cured, writers are kept in a sync.Pool, and reset for the next file.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	foghorns = 400
	blasts   = 600 // of each foghorn are kept
	day      = 60  // of them are of the last day
)

// blast is one time that a foghorn sounded.
type blast struct {
	at      time.Time
	keeper  *string
	seconds int
}

// station has the logs of all foghorns, and hands them out.
type station struct {
	logs    [][]*blast
	cured   bool
	writers sync.Pool
	buffers sync.Pool
}

func newStation(cured bool) *station {
	s := &station{
		logs:    make([][]*blast, foghorns),
		cured:   cured,
		writers: sync.Pool{New: func() any { return gzip.NewWriter(nil) }},
		buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }},
	}
	began := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	for horn := range s.logs {
		for i := range blasts {
			keeper := "keeper " + strconv.Itoa((horn+i/20)%30)
			s.logs[horn] = append(s.logs[horn], &blast{
				at:      began.Add(time.Duration(i*37+horn) * time.Minute),
				keeper:  &keeper,
				seconds: 4 + (i*horn)%9,
			})
		}
	}
	return s
}

// compress writes the log of the last day of a foghorn into a gzip file.
func (s *station) compress(out io.Writer, horn int) error {
	file := s.writer(out)
	for _, b := range s.logs[horn][blasts-day:] {
		fmt.Fprintf(file, "%s;%s;%d s\n", b.at.Format(time.RFC3339), *b.keeper, b.seconds)
	}
	if err := file.Close(); err != nil {
		return err
	}
	if s.cured {
		s.writers.Put(file)
	}
	return nil
}

// writer writes a gzip file to out.
func (s *station) writer(out io.Writer) *gzip.Writer {
	if !s.cured {
		return gzip.NewWriter(out)
	}
	file := s.writers.Get().(*gzip.Writer)
	file.Reset(out)
	return file
}

func (s *station) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	out := s.buffers.Get().(*bytes.Buffer)
	defer s.buffers.Put(out)
	out.Reset()
	horn := rand.IntN(foghorns)
	if err := s.compress(out, horn); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="horn-%d.gz"`, horn))
	w.Header().Set("X-Seal", work.Do(1))
	w.Write(out.Bytes())
}

func open(p *ward.Patient) (http.Handler, error) { return newStation(p.Cured), nil }

func main() { ward.Main(open) }
