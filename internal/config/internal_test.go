//go:build !race

package config

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestScalarsMeanWhatTheySay(t *testing.T) {
	for text, want := range map[string]Duration{
		"0s": 0, "1.5s": Duration(1500 * time.Millisecond), "5m": Duration(5 * time.Minute),
		"1h30m": Duration(90 * time.Minute), "1ms": Duration(time.Millisecond),
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("duration %q is %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]Size{
		"0": 0, "512": 512, "512B": 512, "8KB": 8192, "1MB": 1 << 20, "2GB": 2 << 30, "1TB": 1 << 40,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("size %q is %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]Percent{"0%": 0, "20%": 0.2, "12.5%": 0.125, "100%": 1} {
		if got, err := ParsePercent(text); err != nil || math.Abs(float64(got-want)) > 1e-12 {
			t.Errorf("share %q is %v, %v", text, got, err)
		}
	}
}

func TestScalarsThatMeanNothingAreRefused(t *testing.T) {
	for _, text := range []string{"", "5", "1.5", "-1s", "s", "5 s", "1d", "1h30", "9999999h"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("duration %q is %v", text, d)
		}
	}
	for _, text := range []string{"", "B", "-1", "+1", "1.5KB", "1kb", "1 KB", "1KiB", "1PB",
		"9999999999999999999", "9999999TB", "0x10", "1_000"} {
		if s, err := ParseSize(text); err == nil {
			t.Errorf("size %q is %v", text, s)
		}
	}
	for _, text := range []string{"", "%", "20", "0.2", "-1%", "101%", "NaN%", "Inf%", "1e1%", "0x1p1%", "20 %"} {
		if p, err := ParsePercent(text); err == nil {
			t.Errorf("share %q is %v", text, p)
		}
	}
}

func TestScalarsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, d := range []Duration{0, 1, Duration(time.Second), Duration(75 * time.Second),
		Duration(time.Hour), Duration(20 * time.Minute), Duration(61 * time.Minute),
		Duration(10*time.Hour + time.Second), math.MaxInt64} {
		if got, err := ParseDuration(d.String()); err != nil || got != d {
			t.Errorf("%d is written %s and read %d, %v", d, d, got, err)
		}
	}
	for _, s := range []Size{0, 1, 1023, 1024, 1500, 1 << 20, 3 << 30, 1 << 40, math.MaxInt64} {
		if got, err := ParseSize(s.String()); err != nil || got != s {
			t.Errorf("%d is written %s and read %d, %v", s, s, got, err)
		}
	}
	for _, text := range []string{"0%", "1.5%", "12.345%", "33%", "57%", "100%"} {
		if p, err := ParsePercent(text); err != nil || p.String() != text {
			t.Errorf("%s is written %s, %v", text, p, err)
		}
	}
}

func TestExpansion(t *testing.T) {
	environment := map[string]string{"A": "a", "EMPTY": "", "SLY": "${host}", "N_1": "n"}
	lookup := func(name string) (string, bool) { v, ok := environment[name]; return v, ok }
	for _, c := range []struct {
		text     string
		template bool
		want     string // or the error, when it begins with "!"
	}{
		{"plain $ text } {x} $A", false, "plain $ text } {x} $A"},
		{"${A}${N_1}-${A}", false, "an-a"},
		{"${EMPTY}", false, ""},
		{"${EMPTY:-x}${NONE:-y}${A:-z}${NONE:-}", false, "xya"},
		{"${NONE:-a:-b}", false, "a:-b"},
		{"$${A} ${A}", false, "${A} a"},
		{"$$${A}", false, "$${A}"},
		{"${SLY}", false, "${host}"},
		{"${SLY}", true, "$${host}"},
		{"$${host} ${host} ${A}", true, "$${host} ${host} a"},
		{"${path.id_2}", true, "${path.id_2}"},
		{"${NONE}", false, "!NONE is not set"},
		{"${NONE}", true, "!NONE is not set"},
		{"${host}", false, "!belongs to an exchange"},
		{"${hosts}", true, "!client_address, client_port"},
		{"${host:-x}", true, "!belongs to an exchange"},
		{"${path.}", true, "!not a variable"},
		{"${path.a-b}", true, "!not a variable"},
		{"${A", false, "!not closed"},
		{"${}", true, "!not a variable"},
		{"${1A}", false, "!does not name an environment variable"},
		{"${Mixed}", false, "!does not name an environment variable"},
	} {
		got, err := expand(c.text, c.template, lookup)
		if fault, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%q: %q, %v; want an error with %q", c.text, got.text, err, fault)
			}
		} else if err != nil || got.text != c.want {
			t.Errorf("%q (template: %v) is %q, %v; want %q", c.text, c.template, got.text, err, c.want)
		}
	}
}

func TestTheNearestNameIsTheOneThatWasMeant(t *testing.T) {
	known := []string{"listeners", "upstreams", "routes", "admin", "sla", "tls"}
	for name, want := range map[string]string{
		"listner": "listeners", "upstraems": "upstreams", "Routes": "routes", "tsl": "tls", "slo": "sla", "banana": "", "": "", "x": "",
	} {
		var s suggester
		if got := s.nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// everyKey calls each with every key of every struct of the configuration.
func everyKey(t reflect.Type, each func(owner string, k *key)) {
	for _, k := range keysOf(t) {
		each(t.Name(), &k)
		if k.leaf().Kind() == reflect.Struct {
			everyKey(k.leaf(), each)
		}
	}
}

func TestTheCommentOfEveryKeyAgreesWithItsTags(t *testing.T) {
	everyKey(reflect.TypeFor[Config](), func(owner string, k *key) {
		name, text := owner+"."+k.goName, comments()[owner+"."+k.goName]
		if text == "" {
			t.Errorf("%s has no comment", name)
		}
		said := strings.Contains(text, "Default: ")
		isBare := k.typ.Kind() == reflect.Struct || k.typ.Kind() == reflect.Map || k.typ.Kind() == reflect.String || k.one || k.required
		switch {
		case k.hasDef && !strings.Contains(strings.ReplaceAll(text, `"`, ""), "Default: "+strings.ReplaceAll(k.def, ",", ", ")):
			t.Errorf("%s has the default %q, which its comment does not say: %s", name, k.def, text)
		case !k.hasDef && !said && !isBare && k.typ.Kind() != reflect.Slice:
			t.Errorf("%s has no default, and its comment does not say what happens without it: %s", name, text)
		case k.required && said:
			t.Errorf("%s is required, and its comment speaks of a default: %s", name, text)
		}
	})
}

func TestEveryKeyThatNeedsALimitHasOne(t *testing.T) {
	everyKey(reflect.TypeFor[Config](), func(owner string, k *key) {
		leaf := k.leaf()
		numeric := leaf.Kind() == reflect.Int || leaf == durationType || leaf == sizeType
		if numeric && k.max == "" && len(k.enum) == 0 {
			t.Errorf("%s.%s has no limits", owner, k.goName)
		}
		if k.max != "" && k.low > k.high {
			t.Errorf("%s.%s: %s is above %s", owner, k.goName, k.min, k.max)
		}
	})
}

func TestWhatADisclosureNeedsIsInAllThatItFinds(t *testing.T) {
	separators := []string{
		"", "=", ":", "//", `"`, "'", " ", "\t", "\n", "\f", "\r", "\v", "\u00a0", "?", ",",
	}
	for _, name := range []string{"token", "Bearer", "x-sig", "https", ""} {
		for _, value := range []string{"12345678", "user@", "x:y@host", `s"`, "s'"} {
			for i := range len(separators) * len(separators) {
				text := name + separators[i/len(separators)] + separators[i%len(separators)] + value
				for _, d := range disclosures {
					if found := d.find.FindString(text); found != "" && !d.canBeIn(found) {
						t.Errorf("%s finds %q, which lacks one of %q", d.find, found, d.needs)
					}
				}
			}
		}
	}
}
