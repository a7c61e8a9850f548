package experiment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/lab/experiment"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be the services and the commands that experiments start: SERVICE
// says which.
func TestMain(m *testing.M) {
	switch os.Getenv("SERVICE") {
	case "":
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
	case "shop":
		shop()
	case "silent":
		fmt.Println("waiting for a database that never comes")
		select {}
	case "deaf":
		deaf()
	case "print":
		text, err := os.ReadFile(os.Args[1])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Printf("{\"value\": %s, \"unit\": \"words are not figures\"}\n", strings.TrimSpace(string(text)))
	case "visit":
		visit()
	case "fail":
		fmt.Println("it does not compile")
		os.Exit(7)
	case "isolated":
		isolated()
	}
}

// isolated is what TestKernelSettingsAreVariedInANamespaceOfTheirOwn starts.
func isolated() {
	os.Unsetenv("SERVICE")
	e, err := experiment.Read(os.Getenv("FILE"))
	var result *experiment.Result
	if err == nil {
		result, err = e.Run(context.Background(), experiment.Options{Dir: os.Getenv("DIR")})
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// hoard is what the shop holds on to when it is asked for it: bytes.
const hoard = 64 << 20

// shop serves: DELAY before each answer, and after DIES requests it panics. It tells its process
// number to the file PIDS, and with HERMIT that of a worker which has a session of its own. /hoard
// has it take memory.
func shop() {
	if path := os.Getenv("PIDS"); path != "" {
		note(path, os.Getpid())
	}
	if os.Getenv("HERMIT") != "" {
		worker := exec.Command("sleep", "600")
		worker.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := worker.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		note(os.Getenv("PIDS"), worker.Process.Pid)
	}
	delay, _ := time.ParseDuration(os.Getenv("DELAY"))
	dies, _ := strconv.ParseInt(os.Getenv("DIES"), 10, 64)
	var served atomic.Int64
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE served_total counter\nserved_total %d\n# TYPE "+
			"go_gc_duration_seconds summary\ngo_gc_duration_seconds_count %d\n",
			served.Load(), served.Load()/10)
	})
	var held []byte
	http.HandleFunc("/hoard", func(w http.ResponseWriter, _ *http.Request) {
		held = bytes.Repeat([]byte{1}, hoard)
		fmt.Fprintln(w, len(held))
	})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if n := served.Add(1); dies > 0 && n > dies {
			fmt.Println("out of stock, giving up")
			os.Exit(3)
		}
		wait := time.NewTimer(delay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.Context().Done():
		}
		fmt.Fprintln(w, "sold")
	})
	go func() {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
		os.Exit(0)
	}()
	fmt.Println("listening")
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
	os.Exit(1)
}

// visit asks for a page, and prints how that ended.
func visit() {
	response, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	response.Body.Close()
	fmt.Printf("{\"status\": %d}\n", response.StatusCode)
}

// deaf ignores that it is asked to end, and so does its child.
func deaf() {
	signal.Ignore(syscall.SIGTERM)
	note(os.Getenv("PIDS"), os.Getpid())
	if os.Getenv("CHILD") == "" {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "CHILD=1")
		if err := child.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		shop()
	}
	select {}
}

func note(path string, pid int) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, pid)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	f.Close()
}
