package guard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"plimsoll/internal/plainfile"
)

const (
	maxKey      = 4 << 10          // bytes of a key
	fetchTime   = 10 * time.Minute // for a list at a URL
	retryAtMost = time.Minute      // after a failure to read the list, if Every is longer
)

// seen is what shows whether a list has changed since it was read.
type seen struct {
	size     int64
	modified time.Time
	etag     string
}

var errNoKeys = errors.New("the list has no keys")

var errUnchanged = errors.New("guard: the list has not changed")

// keep reads the list, and reads it again when it has changed, until ctx is over.
func (s *state) keep(ctx context.Context) {
	if s.o.Redis != nil {
		defer s.o.Redis.Release()
	}
	for {
		err := s.load(ctx)
		wait := s.o.Every
		if err != nil {
			wait = min(wait, retryAtMost)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// load reads the list once, and makes a filter from it for the requests.
func (s *state) load(ctx context.Context) error {
	s.mu.Lock()
	before := s.seen
	s.reading, s.removedSince = true, nil
	s.mu.Unlock()
	hashes, now, err := s.read(ctx, before)
	if err == nil {
		s.swap(newFilter(hashes, s.o.FalsePositives))
	}
	s.mu.Lock()
	s.reading = false
	failedAnew := err != nil && err != errUnchanged && s.err == nil
	switch {
	case err == nil:
		s.seen = now
		fallthrough
	case err == errUnchanged:
		s.right, s.err = time.Now(), nil
	default:
		s.err = err
	}
	s.mu.Unlock()
	switch {
	case err == nil:
		s.loaded.Add(1)
	case err == errUnchanged:
		s.unchanged.Add(1)
		return nil
	case ctx.Err() == nil:
		s.failed.Add(1)
		if failedAnew && s.o.Env.Log != nil {
			s.o.Env.Log.Warn("a guard cannot read its list of keys and goes on with the last one, "+
				"or lets everything pass",
				"file", s.o.File, "url", s.o.URL, "set", s.o.Set, "error", err)
		}
	}
	return err
}

// read returns the hashes of a list's keys, or errUnchanged.
func (s *state) read(ctx context.Context, before seen) ([]uint64, seen, error) {
	if s.o.Redis != nil {
		hashes, err := s.readSet(ctx)
		return hashes, seen{}, err
	}
	var from io.ReadCloser
	var now seen
	var err error
	if s.o.File != "" {
		from, now, err = openFile(s.o.File)
		if err == nil && now == before {
			from.Close()
			return nil, now, errUnchanged
		}
	} else {
		ctx, cancel := context.WithTimeout(ctx, fetchTime)
		defer cancel()
		from, now, err = openURL(ctx, s.o.URL, before)
	}
	if err != nil {
		return nil, now, err
	}
	defer from.Close()
	hashes, err := s.hashes(ctx, from)
	return hashes, now, err
}

// hashes reads a list with one key per line. An empty list is an error, because it would refuse
// everything.
func (s *state) hashes(ctx context.Context, from io.Reader) ([]uint64, error) {
	var all []uint64
	lines := bufio.NewScanner(bufio.NewReaderSize(from, 64<<10))
	lines.Buffer(make([]byte, maxKey+2), maxKey+2)
	for n := 1; lines.Scan(); n++ {
		key := bytes.TrimSpace(lines.Bytes())
		if len(key) == 0 {
			continue
		}
		if len(all) == s.o.MaxKeys {
			return nil, fmt.Errorf("line %d: the list has more than max_keys, %d", n, s.o.MaxKeys)
		}
		if n&(1<<16-1) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		all = append(all, s.hash(key))
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("a line behind key %d is longer than %d bytes", len(all), maxKey)
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, errNoKeys
	}
	return all, nil
}

func openFile(name string) (io.ReadCloser, seen, error) {
	f, err := plainfile.Open(name)
	if err != nil {
		return nil, seen{}, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, seen{}, err
	}
	return f, seen{size: info.Size(), modified: info.ModTime()}, nil
}

func openURL(ctx context.Context, url string, before seen) (io.ReadCloser, seen, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, seen{}, err
	}
	if before.etag != "" {
		req.Header.Set("If-None-Match", before.etag)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, seen{}, err
	}
	now := seen{etag: res.Header.Get("Etag")}
	switch res.StatusCode {
	case http.StatusOK:
		return res.Body, now, nil
	case http.StatusNotModified:
		res.Body.Close()
		return nil, now, errUnchanged
	}
	res.Body.Close()
	return nil, now, fmt.Errorf("%s answered %s", url, res.Status)
}
