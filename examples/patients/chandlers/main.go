// Command chandlers hands out a ship chandler's price list as a compressed file. The list changes
// once a day; but it is compressed anew for each request, and as well as gzip can. Only pprof is
// shown.
//
// Cured, it is compressed once.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	harbours = 8
	articles = 700
)

var goods = []string{"Manila rope", "Stockholm tar", "Brass shackle", "Sailcloth, No. 4",
	"Linseed oil", "Copper nails", "Signal lamp", "Oakum", "Block & tackle"}

// list is what a chandler asks for his goods in one harbour. Any goroutine may use it.
type list struct {
	plain   []byte
	writers *sync.Pool
}

// file writes the list as a gzip file.
func (l *list) file() ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(l.plain) / 2)
	z := l.writers.Get().(*gzip.Writer)
	defer l.writers.Put(z)
	z.Reset(&out)
	if _, err := z.Write(l.plain); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// write makes a list.
func write(harbour int, writers *sync.Pool) *list {
	random := rand.New(rand.NewPCG(11, uint64(harbour)))
	var b bytes.Buffer
	for i := range articles {
		fmt.Fprintf(&b, "%d-%05d;%s %d;%d.%02d;per %d\n", harbour, i*7, goods[random.IntN(len(goods))],
			random.IntN(40), random.IntN(300), random.IntN(100), 1+random.IntN(12))
	}
	return &list{plain: b.Bytes(), writers: writers}
}

func open(p *ward.Patient) (http.Handler, error) {
	writers := &sync.Pool{New: func() any {
		z, err := gzip.NewWriterLevel(nil, gzip.BestCompression)
		if err != nil {
			panic(err) // the level is one
		}
		return z
	}}
	var files []func() ([]byte, error)
	for harbour := range harbours {
		l := write(harbour, writers)
		if p.Cured {
			files = append(files, sync.OnceValues(l.file))
		} else {
			files = append(files, l.file)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		file, err := files[rand.IntN(harbours)]()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(file)))
		w.Header().Set("X-Order", work.Do(4))
		w.Write(file)
	}), nil
}

func main() { ward.Main(open) }
