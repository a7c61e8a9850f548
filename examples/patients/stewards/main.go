// Command stewards prints the vouchers for drinks of a cruise. Each letter of a voucher's code is
// drawn with crypto/rand.Int, which asks the kernel for one byte and makes numbers of any size to
// hold it, thousands of times for a sheet; only pprof is shown.
//
// Cured, the letters of a sheet come from one read of random bytes.
package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"hash/crc32"
	"math/big"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	vouchers = 400 // on a sheet
	letters  = 16  // of a voucher
	// alphabet has no letters that guests take for others. It has 32, so that a byte is a letter
	// without favour.
	alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
)

var (
	drinks = []string{"coffee", "tea", "lemonade", "ginger beer", "punch", "cider"}
	size   = big.NewInt(int64(len(alphabet)))
)

// press prints sheets. Any goroutine may use it.
type press struct{ cured bool }

// draw gives so many letters that nobody can guess.
func (p *press) draw(n int) ([]byte, error) {
	code := make([]byte, n)
	if p.cured {
		if _, err := rand.Read(code); err != nil {
			return nil, err
		}
		for i, b := range code {
			code[i] = alphabet[int(b)%len(alphabet)]
		}
		return code, nil
	}
	for i := range code {
		at, err := rand.Int(rand.Reader, size)
		if err != nil {
			return nil, err
		}
		code[i] = alphabet[at.Int64()]
	}
	return code, nil
}

// sheet is what one cabin is handed.
func (p *press) sheet(cabin int) ([]byte, error) {
	codes, err := p.draw(vouchers * letters)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Grow(vouchers * 64)
	for i := range vouchers {
		code := codes[i*letters : (i+1)*letters]
		fmt.Fprintf(&out, "%04d;%s;%s;%08x\n", cabin, code, drinks[(cabin+i)%len(drinks)],
			crc32.ChecksumIEEE(code))
	}
	return out.Bytes(), nil
}

func (p *press) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	sheet, err := p.sheet(mathrand.IntN(900))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(sheet)))
	w.Header().Set("X-Order", work.Do(3))
	w.Write(sheet)
}

func open(p *ward.Patient) (http.Handler, error) { return &press{cured: p.Cured}, nil }

func main() { ward.Main(open) }
