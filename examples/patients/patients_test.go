// Package patients_test admits every patient: it has to be listed and, with -each, to start sick and
// cured, to answer, and to end when it is told to. Without -each, some are started, sick or cured, so
// that everything that patients are started by is.
package patients_test

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/lab/slo"
)

// patient is an entry of patients.json; bench/patients.py says what its members mean.
type patient struct {
	Name, Folder, Disease, Cure, Rule, SLO, Path, Scheme string
	Place, Package, Half                                 string
	Rules, Flags, Survey, Shows, Command, Check          []string
	HotSpot                                              string `json:"hot_spot"`
	Needs                                                json.RawMessage
}

// states are the flags that a patient is run with, once each.
func (p *patient) states() [][]string {
	if len(p.Rules) > 0 {
		return [][]string{{}, {"--cure", "first"}, {"--cure", "second"}, {"--cure", "both"}, {"--cured"}}
	}
	return [][]string{{}, {"--cured"}}
}

// shown is how a hot spot that has to be shown, and is not a finding, stands in the place of a rule.
func shown(spot string) string {
	if spot == "" {
		return ""
	}
	return "none: `" + spot + "` is shown as where the time goes"
}

// file is the program, or its main file, in the patient's folder.
func (p *patient) file() string {
	if len(p.Command) > 0 {
		return p.Command[len(p.Command)-1]
	}
	return "main.go"
}

// start is the words that start a patient; Go's programs have been built into the folder bin. The
// others have nothing to look inside, and so no flag for it.
func (p *patient) start(t *testing.T, bin string, flags []string) []string {
	t.Helper()
	if len(p.Command) == 0 {
		words := []string{filepath.Join(bin, p.Folder), "--address", "127.0.0.1:0", "--debug", ""}
		return slices.Concat(words, p.Flags, flags)
	}
	if err := checked(p.Check); err != nil {
		t.Fatalf("%s is not installed, and scripts/tools.sh installs it: %v", p.Package, err)
	}
	words := slices.Clone(p.Command)
	words[len(words)-1] = filepath.Join(p.Folder, p.file())
	return slices.Concat(words, []string{"--address", "127.0.0.1:0"}, p.Flags, flags)
}

// checks are the commands that look for a patient's language, each with what asks it once: some take
// as long as a patient does to start.
var checks sync.Map

func checked(words []string) error {
	once, _ := checks.LoadOrStore(strings.Join(words, " "), sync.OnceValue(func() error {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}))
	return once.(func() error)()
}

func list(t *testing.T) []patient {
	t.Helper()
	f, err := os.Open("patients.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []patient
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		t.Fatalf("patients.json: %v", err)
	}
	return all
}

func TestEveryPatientIsListedWithAllThatASurveyNeeds(t *testing.T) {
	var listed, names []string
	for _, p := range list(t) {
		if p.Name == "" || p.Disease == "" || p.Cure == "" || !strings.HasPrefix(p.Path, "/") {
			t.Errorf("%+v: it needs a name, a disease, a cure and a path", p)
		}
		if p.Rule != "" && len(p.Rules) > 0 || len(p.Rules) != 0 && len(p.Rules) != 2 {
			t.Errorf("%s has one rule, or two rules in the order in which they give", p.Name)
		}
		if len(p.Command) > 0 && (len(p.Check) == 0 || p.Package == "") {
			t.Errorf("%s needs a check whether it can run here, and the package that it needs", p.Name)
		}
		if _, err := slo.Parse(p.SLO); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if slices.Contains(names, p.Name) {
			t.Errorf("%s is listed twice", p.Name)
		}
		names, listed = append(names, p.Name), append(listed, p.Folder)
	}
	found, err := filepath.Glob("*/[mM]ain.*")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, f := range found {
		folders = append(folders, filepath.Dir(f))
	}
	slices.Sort(listed)
	if listed = slices.Compact(listed); !slices.Equal(listed, folders) {
		t.Errorf("patients.json lists the folders %v; those with a program are %v", listed, folders)
	}
}

// What --help shows is a docstring, which nothing else reads.
func TestHelpNamesHalvesThatCanBeSurveyed(t *testing.T) {
	script, err := os.ReadFile("../../bench/patients.py")
	if err != nil {
		t.Fatal(err)
	}
	help := strings.SplitN(string(script), `"""`, 3)[1]
	var most int
	for _, p := range list(t) {
		if p.Half != "" {
			most++
		}
	}
	shown := regexp.MustCompile(`--half (\w+)`).FindAllStringSubmatch(help, -1)
	counts := []string{}
	for _, half := range shown {
		out, err := exec.Command("/usr/bin/python3", "-B", "-c",
			"import sys; sys.path.insert(0, '../../bench'); import patients\n"+
				"print(len(patients.choose([], patients.parse().half)))",
			"--plimsoll", "/bin/true", "--half", half[1]).CombinedOutput()
		if err != nil {
			t.Errorf("--half %s: %v: %s", half[1], err, out)
		}
		counts = append(counts, strings.TrimSpace(string(out)))
	}
	if !slices.Contains(counts, strconv.Itoa(most)) {
		t.Errorf("of what is shown none is all %d: %v have %v", most, shown, counts)
	}
}

var (
	update = flag.Bool("update", false, "write the list of patients into README.md")
	each   = flag.Bool("each", false, "start every patient in all states, and not only some in one")
)

// means are what a patient is started by: its language, and with it each package that it takes from
// Debian, its protocol and each of its needs.
func (p *patient) means() (all []string) {
	words := append(strings.Split(p.Package, " or "), p.Scheme)
	for _, need := range regexp.MustCompile(`"need": *"(\w+)"`).FindAllStringSubmatch(string(p.Needs), -1) {
		words = append(words, need[1])
	}
	for _, word := range words {
		all = append(all, p.language()+" "+word)
	}
	return all
}

// visited is a patient that the tests start, and the states that it is started in.
type visited struct {
	patient
	states [][]string
}

// started lists the patients that the tests start. To start all of them, sick and cured, takes minutes
// of processor time, so that is left to make patients. Otherwise a patient is started if it has means
// that those before it have not, in turns sick and cured among those of a language, which read their
// flags in the same way.
func started(t *testing.T) (chosen []visited) {
	t.Helper()
	seen, languages := map[string]bool{}, map[string]int{}
	for _, p := range list(t) {
		states := p.states()
		if !*each {
			before := len(seen)
			for _, mean := range p.means() {
				seen[mean] = true
			}
			if len(seen) == before {
				continue
			}
			turn := languages[p.language()] % 2
			languages[p.language()]++
			states = [][]string{states[turn*(len(states)-1)]}
		}
		chosen = append(chosen, visited{p, states})
	}
	return chosen
}

// language is the program that runs a patient, or go.
func (p *patient) language() string {
	return append(slices.Clone(p.Command), "go")[0]
}

func TestTheREADMEListsThePatients(t *testing.T) {
	const begin, end = "<!-- patients: begin -->\n", "<!-- patients: end -->\n"
	rows := "| patient | disease | rule | what the cure does |\n|---|---|---|---|\n"
	for _, p := range list(t) {
		rule := strings.Join(append(slices.Clone(p.Rules), strings.Fields(p.Rule)...), ", ")
		rows += fmt.Sprintf("| [%s](%s/%s) | %s | %s | %s |\n", p.Name, p.Folder, p.file(), p.Disease,
			cmp.Or(rule, shown(p.HotSpot), "none"), p.Cure)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(readme), begin)
	now, after, also := strings.Cut(rest, end)
	if !found || !also {
		t.Fatalf("README.md has no %q and %q", begin, end)
	}
	if now == rows {
		return
	}
	if !*update {
		t.Fatal("README.md lists other patients than patients.json: go test ./examples/patients -update writes it")
	}
	if err := os.WriteFile("README.md", []byte(before+begin+rows+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPatientsStartAnswerAndEnd(t *testing.T) {
	var patients []visited
	for _, p := range started(t) {
		if len(p.Needs) == 0 { // what others need is tested where it is made
			patients = append(patients, p)
		}
	}
	bin := programs(t)
	for _, p := range patients {
		for _, flags := range p.states {
			t.Run(p.Name+" "+strings.Join(flags, " "), func(t *testing.T) {
				t.Parallel()
				visit(t, &p.patient, p.start(t, bin, flags))
			})
		}
	}
}

// built is where the patients in Go have been built, by one command for all tests: with a command for
// each, the package takes a tenth longer.
var built struct {
	sync.Once
	folder string
	err    error
}

// TestMain makes starts inexpensive, as none is measured here, and removes what was made for all. A
// Java that answers one request spends less without its optimising compiler. One PostgreSQL is
// initialised; the others are copies of it.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		cluster, err := os.MkdirTemp("", "patients-cluster-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(cluster)
		defer func() { os.RemoveAll(built.folder) }()
		os.Setenv("PATIENT_CLUSTER", cluster)
		os.Setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
		return m.Run()
	}())
}

// programs is the folder of the patients that are written in Go.
func programs(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "patients-"); built.err != nil {
			return
		}
		words := []string{"build", "-ldflags=-s -w", "-o", built.folder}
		var folders []string
		for _, p := range started(t) {
			if len(p.Command) == 0 {
				folders = append(folders, "./"+p.Folder)
			}
		}
		slices.Sort(folders)
		build := exec.Command("go", append(words, slices.Compact(folders)...)...)
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.folder
}

// visit starts a service, asks it once, and ends it.
func visit(t *testing.T, p *patient, words []string) {
	var said bytes.Buffer
	service := exec.CommandContext(t.Context(), words[0], words[1:]...)
	service.Stderr = &said
	out, err := service.StdoutPipe()
	if err == nil {
		err = service.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(out).ReadString('\n')
	address, ready := strings.CutPrefix(strings.TrimSpace(first), "ready ")
	if err == nil && ready {
		ask(t, p, address)
	} else {
		t.Errorf("it said %q, and not where it is ready", first)
	}
	if err := service.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("it is gone already: %v", err)
	}
	if err := service.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, &said)
	}
}

func ask(t *testing.T, p *patient, address string) {
	scheme := "http"
	if p.Scheme != "" {
		scheme = p.Scheme
	}
	client := http.Client{Timeout: 20 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	question, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+address+p.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, flag := range p.Survey {
		if name, value, is := strings.Cut(flag, ": "); is && i > 0 && p.Survey[i-1] == "--header" {
			question.Header.Add(name, value)
		}
	}
	answer, err := client.Do(question)
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("it answers %s", answer.Status)
	}
}
