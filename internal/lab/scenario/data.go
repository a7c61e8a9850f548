package scenario

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"plimsoll/internal/config"
	"plimsoll/internal/config/strict"
)

// source provides values: the rows of a file, or whole numbers. It is immutable; each loop's player
// keeps its own position.
type source struct {
	name string
	at   strict.Value
	// columns of a file, in the order of its cells; nil for numbers
	columns []string
	cells   []byte   // the cells of all rows
	ends    []uint32 // where each cell ends
	// count is the number of rows or numbers, from the first number, and step the distance between
	// numbers.
	count      uint64
	from, step int64
	shuffled   bool // values are drawn at random, not in order
	used       bool
}

// draw is the row or number for the n-th session of a loop that uses the source. The loops take
// turns, so no value repeats before all have been used.
func (s *source) draw(n uint64, loop, loops int, rng *rand.Rand) uint64 {
	if s.shuffled {
		return rng.Uint64N(s.count)
	}
	return (uint64(loop) + n*uint64(loops)) % s.count
}

// cell is a column of a row. The caller must not change it.
func (s *source) cell(row uint64, column int) []byte {
	i := int(row)*len(s.columns) + column
	start := uint32(0)
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.cells[start:s.ends[i]:s.ends[i]]
}

// appendNumber appends the number at an index.
func (s *source) appendNumber(dst []byte, index uint64) []byte {
	return strconv.AppendInt(dst, s.from+int64(index)*s.step, 10)
}

// unfit is the number, from 1, of the first row whose cell does not fit the form; 0 if all fit.
func (s *source) unfit(column int, f form) uint64 {
	if s.columns == nil || f != inHeader && f != inURL {
		return 0
	}
	for row := range s.count {
		if !f.fits(s.cell(row, column)) {
			return row + 1
		}
	}
	return 0
}

// data reads the data section.
func (c *compiler) data(v strict.Value) {
	all, _ := v.Pairs()
	if len(all) > maxSources {
		v.Fail("%d sources of values; %d are the most", len(all), maxSources)
		return
	}
	for _, p := range all {
		if !isValueName(p.Name) {
			p.Key.Fail("a value's name begins with a lower-case letter and has letters, digits, " +
				"\"_\" and \"-\"; rename it")
			continue
		}
		s := &source{name: p.Name, at: p.Key}
		// An invalid source is still known by its name, so that its uses are not reported as errors
		// too.
		c.sources[p.Name] = len(c.script.sources)
		c.script.sources = append(c.script.sources, s)
		s.read(p.Value)
	}
}

// read fills the source from its entry in the file. After an error its count is 0.
func (s *source) read(v strict.Value) {
	f, ok := v.Fields("csv", "jsonl", "sequence", "random", "order")
	if !ok {
		return
	}
	kind, ok := f.One("csv", "jsonl", "sequence", "random")
	if !ok {
		return
	}
	at, _ := f.Get(kind)
	order, ordered := f.Get("order")
	switch kind {
	case "sequence", "random":
		if ordered {
			order.Fail("order is for the rows of a file; remove it")
		}
		s.shuffled = kind == "random"
		s.numbers(at)
	default:
		if ordered {
			s.shuffled = readOrder(order)
		}
		if err := s.rows(kind, at); err != nil {
			at.Fail("%v", err)
		}
	}
}

func readOrder(v strict.Value) (shuffled bool) {
	text, ok := v.Text()
	if known := []string{"file", "random"}; ok && !slices.Contains(known, text) {
		v.Fail("%q is not an order; %s", strict.Clip(text), config.Suggest(text, known))
	}
	return text == "random"
}

// numbers reads a range of whole numbers.
func (s *source) numbers(v strict.Value) {
	known := []string{"from", "to"}
	if !s.shuffled {
		known = append(known, "step")
	}
	f, ok := v.Fields(known...)
	if !ok {
		return
	}
	s.from, s.step = 1, 1
	to := int64(strict.MostWhole)
	good := true
	for name, into := range map[string]*int64{"from": &s.from, "to": &to, "step": &s.step} {
		if at, has := f.Get(name); has {
			n, ok := at.Whole()
			*into, good = n, good && ok
		}
	}
	if s.shuffled {
		_, has := f.Need("to")
		good = good && has
	}
	switch {
	case !good:
	case s.step < 1:
		v.Fail("step is %d; it must be at least 1", s.step)
	case to < s.from:
		v.Fail("from is %d and to is %d; let to be at least from", s.from, to)
	default:
		s.count = uint64(to-s.from)/uint64(s.step) + 1
	}
}

// rows reads a file of rows. It counts towards the limit of bytes of all files.
func (s *source) rows(kind string, v strict.Value) error {
	name, ok := v.Text()
	if !ok {
		return nil
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(v.In.Dir, path)
	}
	src, err := v.In.Read(path, v.In.Left)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w; data files may have %v in all",
			strict.Clip(name), err, config.Size(maxData))
	}
	v.In.Left -= int64(len(src))
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if kind == "csv" {
		err = s.readCSV(src)
	} else {
		err = s.readJSONL(src)
	}
	if err == nil && len(s.ends) == 0 {
		err = errors.New("it has no rows; add one")
	}
	if err != nil {
		s.columns = nil
		return fmt.Errorf("%s: %w", strict.Clip(name), err)
	}
	s.count = uint64(len(s.ends) / len(s.columns))
	return nil
}

func (s *source) addCell(text []byte) {
	s.cells = append(s.cells, text...)
	s.ends = append(s.ends, uint32(len(s.cells)))
}

func (s *source) readCSV(src []byte) error {
	r := csv.NewReader(bytes.NewReader(src))
	r.ReuseRecord = true
	header, err := r.Read()
	if err == io.EOF {
		return errors.New("it is empty; its first line must name the columns")
	}
	if err != nil {
		return fmt.Errorf("%w; fix the file", err)
	}
	s.columns = slices.Clone(header)
	for i, name := range s.columns {
		if name == "" || slices.Index(s.columns, name) < i {
			return fmt.Errorf("column %d has the name %q, which is empty or duplicate; "+
				"the first line must name the columns", i+1, strict.Clip(name))
		}
	}
	for {
		record, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w; fix the file", err)
		}
		for _, cell := range record {
			s.addCell([]byte(cell))
		}
	}
}

// readJSONL reads lines with JSON objects. The columns are the keys of the first object; each line
// must have them.
func (s *source) readJSONL(src []byte) error {
	line := 0
	for text := range bytes.Lines(src) {
		line++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var row map[string]json.RawMessage
		if err := json.Unmarshal(text, &row); err != nil || len(row) == 0 {
			return fmt.Errorf("line %d is not a JSON object with keys; fix it", line)
		}
		if s.columns == nil {
			s.columns = slices.Sorted(maps.Keys(row))
		}
		for _, name := range s.columns {
			raw, ok := row[name]
			if !ok {
				return fmt.Errorf("line %d has no %q, which the first line has; add it",
					line, strict.Clip(name))
			}
			if raw[0] == '"' {
				raw = unescape(nil, raw[1:len(raw)-1])
			}
			s.addCell(raw)
		}
	}
	return nil
}
