package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// figures returns a JVM's statistics file with these numbers and texts.
func figures(order binary.ByteOrder, numbers map[string]int64, texts map[string]string) []byte {
	data := make([]byte, perfHead)
	copy(data, []byte{0xca, 0xfe, 0xc0, 0xc0, 0, 2, 0, 1})
	if order == binary.LittleEndian {
		data[4] = 1
	}
	order.PutUint32(data[24:], perfHead)
	order.PutUint32(data[28:], uint32(len(numbers)+len(texts)))
	add := func(name string, kind byte, vector int, value []byte) {
		from := (perfEntry + len(name) + 1 + 7) &^ 7
		entry := make([]byte, (from+len(value)+7)&^7)
		order.PutUint32(entry, uint32(len(entry)))
		order.PutUint32(entry[4:], perfEntry)
		order.PutUint32(entry[8:], uint32(vector))
		entry[12] = kind
		order.PutUint32(entry[16:], uint32(from))
		copy(entry[perfEntry:], name)
		copy(entry[from:], value)
		data = append(data, entry...)
	}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		value := make([]byte, 8)
		order.PutUint64(value, uint64(numbers[name]))
		add(name, 'J', 0, value)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := append([]byte(texts[name]), 0)
		add(name, 'B', len(text), text)
	}
	return data
}

// serial are the figures of a JVM with two collectors.
func serial(order binary.ByteOrder) []byte {
	return figures(order, map[string]int64{
		"sun.os.hrt.frequency":           1_000_000_000,
		"sun.gc.collector.0.invocations": 12,
		"sun.gc.collector.0.time":        480_000_000,
		"sun.gc.collector.1.invocations": 2,
		"sun.gc.collector.1.time":        500_000_000,
		"sun.rt.safepoints":              20,
		"sun.rt.safepointTime":           1_200_000_000,
		"java.cls.loadedClasses":         999,
	}, map[string]string{
		"sun.gc.collector.0.name": "Copy",
		"sun.gc.collector.1.name": "MarkSweepCompact",
		"java.property.java.home": "/usr/lib/jvm",
	})
}

var serialValues = map[string]float64{
	"target.gc.collections.Copy":                    12,
	"target.gc.collecting_seconds.Copy":             .48,
	"target.gc.collections.MarkSweepCompact":        2,
	"target.gc.collecting_seconds.MarkSweepCompact": .5,
	"target.safepoints":                             20,
	"target.safepoint_seconds":                      1.2,
}

// aJVM is a process of the fake with a file of figures.
func aJVM(f *fakeProc, data []byte) (name string) {
	f.process(process{pid: 100, name: "java", start: 5})
	f.write("100/status",
		fmt.Sprintf("Name:\tjava\nUid:\t9\t%d\t9\t9\nNSpid:\t100\t1\n", os.Geteuid()))
	name = "100/root/tmp/hsperfdata_app/1"
	f.write(name, string(data))
	return filepath.Join(f.root, name)
}

// collected returns the values of one sample about collections.
func collected(s *Sampler) map[string]float64 {
	values := s.Sample(0).Values
	maps.DeleteFunc(values, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, "target.gc.") && !strings.HasPrefix(name, "target.safepoint")
	})
	return values
}

func TestAJVMsCollectionsAreReadFromItsFile(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		f := newFakeProc(t)
		aJVM(f, serial(order))
		s := New(Options{PID: 100, Root: f.root, Sys: f.sys})
		if got := collected(s); !maps.Equal(got, serialValues) {
			t.Errorf("%v: %v", order, got)
		}
	}
}

func TestAFileThatIsNotTheProcessesOwnIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(f *fakeProc, file string){
		"another user's": func(f *fakeProc, _ string) {
			f.write("100/status", fmt.Sprintf("Name:\tjava\nUid:\t9\t%d\n", os.Geteuid()+1))
		},
		"a link": func(f *fakeProc, file string) {
			must(f.t, os.Rename(file, file+".x"))
			must(f.t, os.Symlink(file+".x", file))
		},
		"in a folder that is a link": func(f *fakeProc, file string) {
			must(f.t, os.Rename(filepath.Dir(file), filepath.Join(f.root, "there")))
			must(f.t, os.Symlink(filepath.Join(f.root, "there"), filepath.Dir(file)))
		},
		"a folder": func(f *fakeProc, file string) {
			must(f.t, os.Remove(file))
			must(f.t, os.Mkdir(file, 0o755))
		},
		"of another process": func(f *fakeProc, file string) {
			must(f.t, os.Rename(file, filepath.Join(filepath.Dir(file), "100")))
		},
	} {
		f := newFakeProc(t)
		change(f, aJVM(f, serial(binary.LittleEndian)))
		s := New(Options{PID: 100, Root: f.root, Sys: f.sys})
		if got := collected(s); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestABrokenFileOfFiguresSaysNothingAndIsSaidOnce(t *testing.T) {
	whole := serial(binary.LittleEndian)
	changed := func(at int, bytes ...byte) []byte {
		data := slices.Clone(whole)
		copy(data[at:], bytes)
		return data
	}
	for name, data := range map[string][]byte{
		"empty":                       {},
		"half of it":                  whole[:len(whole)/2],
		"without the last byte":       whole[:len(whole)-1],
		"another format":              changed(0, 'P', 'K'),
		"another version":             changed(5, 3),
		"another order":               changed(4, 2),
		"the first entry is far away": changed(24, 0xff, 0xff, 0xff, 0xff),
		"the first entry is the head": changed(24, 0, 0, 0, 0),
		"more entries than there are": changed(28, 0xff, 0xff, 0xff, 0xff),
		"an entry without a length":   changed(perfHead, 0, 0, 0, 0),
		"an entry that goes too far":  changed(perfHead, 0xff, 0xff, 0xff, 0x7f),
		"an entry with no end":        changed(perfHead, 0xff, 0xff, 0xff, 0xff),
		"larger than any":             make([]byte, maxPerfData+1),
		"no frequency":                figures(binary.LittleEndian, nil, nil),
		"a frequency that is negative": figures(binary.LittleEndian,
			map[string]int64{"sun.os.hrt.frequency": -1}, nil),
	} {
		f := newFakeProc(t)
		aJVM(f, data)
		s := New(Options{PID: 100, Root: f.root, Sys: f.sys})
		collected(s)
		if got := collected(s); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
		said := slices.DeleteFunc(s.NotMeasured(), func(line string) bool {
			return !strings.Contains(line, "hsperfdata")
		})
		if len(said) != 1 {
			t.Errorf("%s: it is said %q", name, said)
		}
	}
}

func TestAJVMThatStartsSaysNothingYet(t *testing.T) {
	data := serial(binary.LittleEndian)
	data[7] = 0
	f := newFakeProc(t)
	aJVM(f, data)
	s := New(Options{PID: 100, Root: f.root, Sys: f.sys})
	if got := collected(s); len(got) > 0 || slices.ContainsFunc(s.NotMeasured(),
		func(line string) bool { return strings.Contains(line, "hsperfdata") }) {
		t.Errorf("%v, %q", got, s.NotMeasured())
	}
}

func TestCollectionsAreCountedByTheirCause(t *testing.T) {
	f := newFakeProc(t)
	now := func(runs int64, cause, last string) []byte {
		return figures(binary.LittleEndian, map[string]int64{
			"sun.os.hrt.frequency":                    1_000_000_000,
			"sun.gc.collector.0.invocations":          runs,
			"sun.gc.collector.0.time":                 0,
			"sun.gc.generation.1.space.0.used":        5_000_000,
			"sun.gc.generation.1.space.0.maxCapacity": 90_000_000,
		}, map[string]string{
			"sun.gc.collector.0.name": "Copy", "sun.gc.generation.1.name": "old",
			"sun.gc.cause": cause, "sun.gc.lastCause": last,
		})
	}
	file := aJVM(f, now(7, "No GC", "Allocation Failure"))
	s := New(Options{PID: 100, Root: f.root, Sys: f.sys})
	collected(s)
	for _, step := range []struct {
		runs        int64
		cause, last string
	}{
		{9, "No GC", "System.gc()"}, {9, "No GC", "System.gc()"}, {10, "No GC", "Allocation Failure"},
		{15, "System.gc()", "No GC"}, // it is under way
	} {
		must(t, os.WriteFile(file, now(step.runs, step.cause, step.last), 0o644))
		collected(s)
	}
	got := collected(s)
	for name, want := range map[string]float64{
		"target.gc.collected_for.System.gc()":        7, // not those before the first look
		"target.gc.collected_for.Allocation Failure": 1,
		"target.gc.old_bytes":                        5_000_000,
		"target.gc.old_most_bytes":                   90_000_000,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, and not %v", name, got[name], want)
		}
	}
}

func TestWhatACollectorIsCalledIsPrintable(t *testing.T) {
	p, err := parsePerfData(figures(binary.LittleEndian, map[string]int64{
		"sun.os.hrt.frequency": 1,
	}, map[string]string{"sun.gc.collector.0.name": "Copy\x1b[31m;\n"}), wantedFigure)
	if got := p.texts["sun.gc.collector.0.name"]; err != nil || got != "Copy_[31m__" {
		t.Errorf("a collector is called %q, %v", got, err)
	}
}

func BenchmarkCollections(b *testing.B) {
	numbers := map[string]int64{"sun.os.hrt.frequency": 1e9}
	for i := range 300 { // a JVM has about 250
		numbers[fmt.Sprintf("java.ci.figure.%d", i)] = 1
	}
	proc := newFakeProc(b)
	aJVM(proc, figures(binary.LittleEndian, numbers, nil))
	source := &collections{of: &processes{
		root: proc.root, members: []member{{pid: 100}}, looked: 1,
	}}
	into := map[string]float64{}
	b.ReportAllocs()
	processorTime(b, func() {
		if err := source.Read(into); err != nil {
			b.Fatal(err)
		}
	})
}

func FuzzAFileOfFigures(f *testing.F) {
	f.Add(serial(binary.LittleEndian))
	f.Add(serial(binary.BigEndian))
	f.Fuzz(func(t *testing.T, data []byte) {
		into := map[string]float64{}
		c := &collections{}
		if errors.Join(c.add(100, data, into), c.add(100, data, into)) != nil {
			return
		}
		for name, v := range into {
			if !(v >= 0) || len(name) > 2*maxFigure {
				t.Errorf("%q is %v", name, v)
			}
		}
	})
}
