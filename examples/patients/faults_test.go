package patients_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// observe starts a patient, as others may have changed it by words before its own, and is what a
// script says of it, which has its process as $service and is given half a minute. The patient ends
// with the script.
func observe(t *testing.T, name, script string, before ...string) string {
	t.Helper()
	all := list(t)
	p := &all[slices.IndexFunc(all, func(p patient) bool { return p.Name == name })]
	const start = `mkfifo "$0"; setpriv --pdeathsig TERM -- "$@" >"$0" & service=$!
		read ready address <"$0"; test "$ready" = ready || exit 1; `
	words := []string{"timeout", "30", "sh", "-c", start + script, filepath.Join(t.TempDir(), "ready")}
	words = slices.Concat(words, before, p.start(t, "", nil))
	if len(p.Needs) > 0 && len(before) == 0 {
		return said(t, theNeeds(t, p, "sick")[0], words...)
	}
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", words, err, &complaints)
	}
	return strings.TrimSpace(string(out))
}

// askOften asks several times at once, and prints the status of each answer; 000 is none.
const askOften = `curl --silent --parallel --parallel-immediate --max-time 9 --output /dev/null \
	--write-out '%{http_code} ' "http://$address/?[1-8]"; `

const end = `kill $service; wait $service`

func TestTurnstilesRefusesWhenItsRedisIsGone(t *testing.T) {
	t.Parallel()
	got := observe(t, "turnstiles",
		`redis-cli -h "${PATIENT_REDIS%:*}" -p "${PATIENT_REDIS#*:}" shutdown nosave
		`+askOften+askOften+end)
	if got != strings.TrimSpace(strings.Repeat("503 ", 16)) {
		t.Errorf("it answers %s, want 503", got)
	}
}

func TestTurnstilesSaysThatItWasGivenNoRedis(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), "node", "turnstiles/main.js")
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PATIENT_REDIS=")
	})
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "PATIENT_REDIS is not set: give it as") {
		t.Errorf("it ends with %v: %s", err, out)
	}
}

// A service that has lost a part of itself is not the one that is surveyed.
func TestAPatientEndsWithAProcessThatItIsMadeOf(t *testing.T) {
	for name, part := range map[string]string{
		"turnstiles": "node", "causeways": "haproxy", "haproxy": "haproxy", "gangways": "haproxy",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := observe(t, name, `pkill -KILL --oldest -P $service `+part+`; wait $service; echo $?`)
			if got != "1" {
				t.Errorf("it ends with %s, want 1", got)
			}
		})
	}
}

func TestCustomsKeepsItsKeyOutOfTheEnvironment(t *testing.T) {
	t.Parallel()
	got := observe(t, "customs", `for worker in $(pgrep -P $service); do
			grep -c "PRIVATE KEY" /proc/$worker/environ; done; `+end)
	if got == "" || strings.Trim(got, "0\n") != "" {
		t.Errorf("lines with a key in the environment of each worker: %q", got)
	}
}

func TestTariffsAreThereForAsLongAsItsServerIs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	empty := func(when string) {
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%s, %v is left (%v)", when, left, err)
		}
	}
	// A worker that has just been made may lose a signal, so it is told until it is gone.
	got := observe(t, "tariffs", `curl --silent --retry 9 --output /dev/null "http://$address/"
		worker=$(pgrep -P $service | head -1); test "$worker" || exit 1
		while kill $worker 2>/dev/null; do timeout 1 tail --pid=$worker -f /dev/null; done
		`+askOften+end, "env", "TMPDIR="+folder)
	if got != strings.TrimSpace(strings.Repeat("200 ", 8)) {
		t.Errorf("where a worker has ended, it answers %s", got)
	}
	empty("after its end")
	command := exec.CommandContext(t.Context(), "/usr/bin/python3", "tariffs/main.py",
		"--address", "127.0.0.1:none")
	command.Env = append(os.Environ(), "TMPDIR="+folder)
	if out, err := command.CombinedOutput(); err == nil {
		t.Errorf("it starts at a port that is none: %s", out)
	}
	empty("where it has not started")
}

// Eight requests have four locks, so some wait for one that is held for as long as nothing is
// answered.
func TestEscortsLetsNobodyWaitForEver(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	got := observe(t, "escorts", askOften+end, "env", "PATIENT_SERVICE="+silent.Addr().String())
	if got != strings.TrimSpace(strings.Repeat("502 ", 8)) {
		t.Errorf("it answers %s, want 502", got)
	}
}
