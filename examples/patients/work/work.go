// Package work is what a patient does for a living: honest use of the processor, spread over
// several functions so that none stands out in a profile. Without some of it a cured service would
// be faster than the machine can ask for. It must know nothing of diseases.
package work

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"sync"
)

// desk is what one request works on. Desks are kept, as the garbage of a request would be a second
// disease.
type desk struct {
	text    []byte
	escaped []byte
	numbers [96]uint64
	row     [80]int
	counts  [256]int
}

var desks = sync.Pool{
	New: func() any { return &desk{text: make([]byte, 0, 4096), escaped: make([]byte, 0, 8192)} },
}

// Do works for about a tenth of a millisecond of one core for each unit, and returns a line that
// depends on all of it. Any goroutine may call.
func Do(units int) string {
	d := desks.Get().(*desk)
	defer desks.Put(d)
	var seal [sha256.Size]byte
	for range units {
		seed := binary.LittleEndian.Uint64(seal[:])
		write(d, seed)
		escape(d)
		rank(d, seed)
		interest := grow(seed)
		distance := compare(d)
		common := count(d)
		seal = sign(d, uint64(distance)^uint64(common)^math.Float64bits(interest)^d.numbers[0])
	}
	return hex.EncodeToString(seal[:])
}

// How often each part is done in a unit, so that all of them cost about the same.
const (
	writes, escapes, ranks, counts, signs = 4, 5, 20, 18, 7
	years                                 = 1400
)

// write makes a table of numbers.
func write(d *desk, seed uint64) {
	for range writes {
		d.text = d.text[:0]
		for i := range 110 {
			seed = next(seed)
			d.text = strconv.AppendInt(d.text, int64(i), 10)
			d.text = append(d.text, "<td>"...)
			d.text = strconv.AppendFloat(d.text, float64(seed>>40)/100, 'f', 2, 64)
			d.text = append(d.text, " & "...)
		}
	}
}

// next is the number after seed in a fixed sequence.
func next(seed uint64) uint64 { return seed*6364136223846793005 + 1442695040888963407 }

// escape makes the table safe to show.
func escape(d *desk) {
	for range escapes {
		d.escaped = d.escaped[:0]
		for _, c := range d.text {
			switch c {
			case '<':
				d.escaped = append(d.escaped, "&lt;"...)
			case '>':
				d.escaped = append(d.escaped, "&gt;"...)
			case '&':
				d.escaped = append(d.escaped, "&amp;"...)
			default:
				d.escaped = append(d.escaped, c)
			}
		}
	}
}

// rank sorts prices.
func rank(d *desk, seed uint64) {
	for range ranks {
		for i := range d.numbers {
			seed = next(seed)
			d.numbers[i] = seed
		}
		slices.Sort(d.numbers[:])
	}
}

// grow computes compound interest.
func grow(seed uint64) float64 {
	sum, rate := 0.0, 1+float64(seed%100)/1000
	for i := range years {
		sum += math.Pow(rate, float64(i)/12)
	}
	return sum
}

// compare tells how many edits apart two pieces of the table are.
func compare(d *desk) int {
	a, b := d.text[:len(d.row)], d.text[len(d.text)-len(d.row)+1:]
	for i := range d.row {
		d.row[i] = i
	}
	for i := range a {
		before := d.row[0]
		d.row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			before, d.row[j+1] = d.row[j+1], min(before+cost, d.row[j]+1, d.row[j+1]+1)
		}
	}
	return d.row[len(b)]
}

// count finds the most common byte, and where the last of it is.
func count(d *desk) int {
	clear(d.counts[:])
	for range counts {
		for _, c := range d.escaped {
			d.counts[c]++
		}
	}
	most := 0
	for c, n := range d.counts {
		if n > d.counts[most] {
			most = c
		}
	}
	return bytes.LastIndexByte(d.escaped, byte(most))
}

// sign seals the table, and the seal again and again.
func sign(d *desk, extra uint64) (seal [sha256.Size]byte) {
	d.escaped = binary.LittleEndian.AppendUint64(d.escaped, extra)
	for range signs {
		d.escaped = binary.LittleEndian.AppendUint32(d.escaped, crc32.ChecksumIEEE(d.escaped))
		seal = sha256.Sum256(d.escaped)
	}
	return seal
}
