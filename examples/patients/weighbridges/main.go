// Command weighbridges tells what a lorry pays in customs once it has been weighed. The rate hangs
// on the number of the goods, and a helper in Python that the customs office has written finds it:
// the service has started one, and writes a number to its standard input for each request. The
// helper compares it with each of thousands of prefixes in turn, and is busy with that, so requests
// wait for it while this service has little to do. Nothing is shown.
//
// Cured, the helper looks the beginnings of a number up in a dictionary.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const python = "/usr/bin/python3"

// program is the helper. It reads the number of some goods from a line, and writes their rate, in
// percent: that of the longest prefix for which there is one.
const program = `
import sys

known = []
for numbers in range(10, 100), range(1000, 10_000), range(100_000, 1_000_000, 120):
    known += [(str(n), 3 + n * 7 % 23) for n in numbers]
rates = dict(known)


def compared(number):
    longest, found = 0, 0
    for prefix, rate in known:
        if number.startswith(prefix) and len(prefix) > longest:
            longest, found = len(prefix), rate
    return found


def looked_up(number):
    return next((rates[number[:n]] for n in (6, 4, 2) if number[:n] in rates), 0)


find = {"list": compared, "dictionary": looked_up}[sys.argv[1]]
for line in sys.stdin:
    print(find(line.rstrip("\n")), flush=True)
`

// customs is the helper that runs. Any goroutine may ask it; it answers one after the other.
type customs struct {
	mu  sync.Mutex
	in  *bufio.Writer
	out *bufio.Reader
}

// start starts the helper. It ends with the patient, as its input does.
func start(p *ward.Patient, how string) (*customs, error) {
	child := exec.Command(python, "-c", program, how)
	child.Stderr = os.Stderr
	in, inErr := child.StdinPipe()
	out, outErr := child.StdoutPipe()
	if err := errors.Join(inErr, outErr, child.Start()); err != nil {
		return nil, fmt.Errorf("start the helper: %w", err)
	}
	p.OnEnd(func() {
		in.Close()
		child.Wait()
	})
	return &customs{in: bufio.NewWriter(in), out: bufio.NewReader(out)}, nil
}

// rate asks for the rate of goods, in percent.
func (c *customs) rate(goods int) (percent int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.in, goods)
	if err := c.in.Flush(); err != nil {
		return 0, fmt.Errorf("ask the helper: %w", err)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("read from the helper: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// bill is what a lorry pays.
type bill struct {
	Goods   int    `json:"goods"`
	Kilos   int    `json:"kilos"`
	Percent int    `json:"percent"`
	Cents   int    `json:"cents"`
	Seal    string `json:"seal"`
}

// bridge weighs lorries.
type bridge struct{ customs *customs }

func (b *bridge) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	lorry := bill{Goods: 10_000_000 + rand.IntN(90_000_000), Kilos: 900 + rand.IntN(30_000)}
	var err error
	if lorry.Percent, err = b.customs.rate(lorry.Goods); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	lorry.Cents = lorry.Kilos * lorry.Percent / 2
	lorry.Seal = work.Do(2)
	body, err := json.Marshal(lorry)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}

func open(p *ward.Patient) (http.Handler, error) {
	how := "list"
	if p.Cured {
		how = "dictionary"
	}
	c, err := start(p, how)
	if err != nil {
		return nil, err
	}
	if _, err := c.rate(10_000_000); err != nil { // it is ready when it has answered
		return nil, err
	}
	return &bridge{c}, nil
}

func main() { ward.Main(open) }
