package measure

import (
	"encoding/json"
	"fmt"
)

// MarshalJSON makes an object of the kinds that occurred, by name; "ok" is always there.
func (t Tally) MarshalJSON() ([]byte, error) {
	by := map[string]uint64{OK.String(): t[OK]}
	for kind, n := range t {
		if n != 0 {
			by[Kind(kind).String()] = n
		}
	}
	return json.Marshal(by)
}

// UnmarshalJSON reads what MarshalJSON has written. A kind that does not exist is an error.
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

// JSONHistogram is how a Sparse looks as JSON. A run directory has HDR logs in its place.
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

// MarshalJSON makes a JSONHistogram of it.
func (s Sparse) MarshalJSON() ([]byte, error) {
	h := JSONHistogram{Sum: s.Sum, Max: s.Max, Buckets: make([]JSONBucket, len(s.Cells))}
	for i, c := range s.Cells {
		from, to := Bounds(int(c.Bucket))
		h.Buckets[i] = JSONBucket{from, to, c.Count}
	}
	return json.Marshal(h)
}
