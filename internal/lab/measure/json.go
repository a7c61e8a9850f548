package measure

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MarshalJSON writes an object of the kinds that occurred, by name; "ok" is always included.
func (t Tally) MarshalJSON() ([]byte, error) {
	by := map[string]uint64{OK.String(): t[OK]}
	for kind, n := range t {
		if n != 0 {
			by[Kind(kind).String()] = n
		}
	}
	return json.Marshal(by)
}

// UnmarshalJSON reads the output of MarshalJSON. An unknown kind is an error.
func (t *Tally) UnmarshalJSON(text []byte) error {
	var by map[string]uint64
	if err := json.Unmarshal(text, &by); err != nil {
		return err
	}
	*t = Tally{}
	for kind := range t {
		name := Kind(kind).String()
		t[kind] = by[name]
		delete(by, name)
	}
	for name := range by {
		return fmt.Errorf("a request cannot end as %q", name)
	}
	return nil
}

// JSONHistogram is the JSON form of a Sparse. A run directory has HDR logs instead.
type JSONHistogram struct {
	Sum     uint64       `json:"sum_ns"`
	Max     int64        `json:"max_ns"`
	Buckets []JSONBucket `json:"buckets"` // those in use, in ascending order
}

// JSONBucket counts the durations from From to To, both included.
type JSONBucket struct {
	From  int64  `json:"from_ns"`
	To    int64  `json:"to_ns"`
	Count uint64 `json:"count"`
}

// MarshalJSON writes a JSONHistogram.
func (s Sparse) MarshalJSON() ([]byte, error) {
	h := JSONHistogram{Sum: s.Sum, Max: s.Max, Buckets: make([]JSONBucket, len(s.Cells))}
	for i, c := range s.Cells {
		from, to := Bounds(int(c.Bucket))
		h.Buckets[i] = JSONBucket{from, to, c.Count}
	}
	return json.Marshal(h)
}

// UnmarshalJSON reads the output of MarshalJSON and nothing else: buckets that are out of order, or
// that are not a histogram's, are an error.
func (s *Sparse) UnmarshalJSON(text []byte) error {
	var h JSONHistogram
	if err := json.Unmarshal(text, &h); err != nil {
		return err
	}
	read := Sparse{Sum: h.Sum, Max: h.Max}
	count := uint64(0)
	for i, b := range h.Buckets {
		if b.From < 0 || b.From > Longest {
			return fmt.Errorf("no histogram has a bucket from %d ns", b.From)
		}
		at := bucket(b.From)
		if from, to := Bounds(at); from != b.From || to != b.To {
			return fmt.Errorf("no histogram has a bucket from %d to %d ns", b.From, b.To)
		}
		if i > 0 && b.From <= h.Buckets[i-1].From {
			return errors.New("the buckets of a histogram are not in order")
		}
		if count+b.Count < count || b.Count == 0 {
			return fmt.Errorf("a bucket of a histogram counts %d", b.Count)
		}
		count += b.Count
		read.Cells = append(read.Cells, Cell{uint16(at), b.Count})
	}
	if h.Max < 0 || h.Max > Longest {
		return fmt.Errorf("the longest duration of a histogram is %d ns", h.Max)
	}
	*s = read
	return nil
}
