package patients_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// around is a command's words with a need around it, by bench/patients_needs.py. The system's Python
// runs it, as it does the patients: one that stands before it in the PATH may be a script that
// searches for a version, for a tenth of a second each time.
func around(need string, words []string) []string {
	return append([]string{"/usr/bin/python3", "-B", "../../bench/patients_needs.py", need}, words...)
}

// withNeed is a command with a need around it.
func withNeed(t *testing.T, need string, words ...string) *exec.Cmd {
	words = around(need, words)
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	// When the test is cut short, the need still has to be taken away.
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 20 * time.Second
	return command
}

// said is what a command printed that ran with a need around it.
func said(t *testing.T, need string, words ...string) string {
	t.Helper()
	command := withNeed(t, need, words...)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s around %q: %v: %s", need, words, err, &complaints)
	}
	return strings.TrimSpace(string(out))
}

// refused expects that a need which takes root says so to those who are not.
func refused(t *testing.T, need string) {
	t.Helper()
	out, err := withNeed(t, need, "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "root") {
		t.Errorf("%s without root: %v, %s; want a word about root", need, err, out)
	}
}

func TestANetworkNamespaceIsMadeAndGone(t *testing.T) {
	need := `{"need": "netns", "ports": 700}`
	if os.Geteuid() != 0 {
		refused(t, need)
		return
	}
	got := said(t, need, "sh", "-c", "cat /proc/sys/net/ipv4/ip_local_port_range; readlink /proc/self/ns/net; ip -o link")
	lines := strings.Split(got, "\n")
	if len(lines) != 3 || strings.Join(strings.Fields(lines[0]), " ") != "32768 33467" || !strings.Contains(lines[2], "lo:") {
		t.Fatalf("the namespace has\n%s\nwant 700 ports from 32768 on and no interface but lo", got)
	}
	for _, process := range processes(t, "ns/net") {
		if process == lines[1] {
			t.Errorf("a process still lives in %s", lines[1])
		}
	}
}

func TestACgroupHoldsTheQuotaAndIsGone(t *testing.T) {
	need := `{"need": "cgroup", "cores": 0.5}`
	if os.Geteuid() != 0 {
		refused(t, need)
		return
	}
	// The group is found as a service would find its own, in the hierarchy of v1 or in that of v2.
	got := said(t, need, "sh", "-c", `group=$(grep -o '[^:]*/plimsoll-patient-[0-9]*' /proc/self/cgroup)
		for folder in $(grep cgroup /proc/self/mounts | cut -d' ' -f2); do
			cat "$folder$group/cpu.cfs_quota_us" "$folder$group/cpu.cfs_period_us" "$folder$group/cpu.max" 2>/dev/null
		done; echo "$group"`)
	fields := strings.Fields(got)
	if len(fields) != 3 || fields[0] != "50000" || fields[1] != "100000" {
		t.Fatalf("the cgroup has %q, want a quota of 50000 in 100000 and a name", fields)
	}
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		if left, err := filepath.Glob(hierarchy + fields[2]); err != nil || len(left) > 0 {
			t.Errorf("%v of the cgroup is left (%v)", left, err)
		}
	}
}

func TestPostgresAnswersAndEnds(t *testing.T) {
	got := said(t, `{"need": "postgres", "connections": 12}`, "sh", "-c",
		`psql "$PATIENT_DATABASE" -Atc 'SHOW max_connections' -c 'SHOW data_directory'`)
	limit, folder, _ := strings.Cut(got, "\n")
	if limit != "12" {
		t.Errorf("the server takes %s connections, want 12", limit)
	}
	if _, err := os.Stat(filepath.Dir(folder)); !os.IsNotExist(err) {
		t.Errorf("its folder %s is left (%v)", folder, err)
	}
	for _, command := range processes(t, "cwd") {
		if strings.HasPrefix(command, folder) {
			t.Errorf("a process is left in %s", command)
		}
	}
}

// processes reads a link of each process's folder, where that is allowed.
func processes(t *testing.T, link string) (all []string) {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if to, err := os.Readlink(filepath.Join(folder, link)); err == nil {
			all = append(all, to)
		}
	}
	return all
}

func TestPatientsWithNeedsAnswerToo(t *testing.T) {
	folder := programs(t)
	for _, p := range started(t) {
		if len(p.Needs) == 0 {
			continue
		}
		for _, flags := range p.states {
			state := "sick"
			if len(flags) > 0 {
				state = "cured"
			}
			needs := theNeeds(t, &p.patient, state)
			t.Run(p.Name+" "+state, func(t *testing.T) {
				// What takes root is of the machine, so there is one at a time.
				rooted := slices.IndexFunc(needs, takesRoot)
				switch {
				case rooted < 0:
					t.Parallel()
				case os.Geteuid() != 0:
					refused(t, needs[rooted])
					return
				}
				visitWith(t, needs, &p.patient, p.start(t, folder, flags))
			})
		}
	}
}

// takesRoot says whether a need is refused to those who are not root.
func takesRoot(need string) bool {
	return slices.ContainsFunc([]string{"netns", "cgroup", "resolver"}, func(name string) bool {
		return strings.Contains(need, `"`+name+`"`)
	})
}

// theNeeds are what a patient needs in a state, each as an object.
func theNeeds(t *testing.T, p *patient, state string) (needs []string) {
	t.Helper()
	var all map[string][]json.RawMessage
	if json.Unmarshal(p.Needs, &all) != nil {
		var same []json.RawMessage
		if err := json.Unmarshal(p.Needs, &same); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		all = map[string][]json.RawMessage{"sick": same, "cured": same}
	}
	if len(all[state]) == 0 {
		t.Fatalf("%s needs nothing when it is %s", p.Name, state)
	}
	for _, need := range all[state] {
		needs = append(needs, string(need))
	}
	return needs
}

// visitWith starts a service with its needs around it, one in the other, asks it once from there, and
// ends all.
func visitWith(t *testing.T, needs []string, p *patient, words []string) {
	t.Helper()
	// A namespace cannot be reached from outside, so the question is asked inside: it is curl's
	// exit code that says how it went.
	const question = `scheme=$1; header=$2; shift 2; mkfifo "$0"; "$@" >"$0" & service=$!
		read ready address <"$0"; test "$ready" = ready && curl --silent --show-error --fail --insecure --max-time 20 --header "$header" --output "$0.body" "$scheme://$address"
		code=$?; kill $service; wait $service && exit $code`
	header := "Accept: */*"
	if i := slices.Index(p.Survey, "--header"); i >= 0 {
		header = p.Survey[i+1]
	}
	words = append([]string{
		"sh", "-c", question, filepath.Join(t.TempDir(), "ready"), cmp.Or(p.Scheme, "http"), header,
	}, words...)
	for _, need := range needs[1:] {
		words = around(need, words)
	}
	said(t, needs[0], words...)
}
