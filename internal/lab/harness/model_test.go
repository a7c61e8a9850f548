package harness

import (
	"testing"

	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

func TestAModelIsMadeAgainAsTheRunMadeIt(t *testing.T) {
	for _, c := range []struct {
		run  record.Manifest
		want model.Options
	}{
		{record.Manifest{Settings: map[string]string{"seed": "7"},
			Machine: record.Machine{Cores: 4, TargetLocal: true}},
			model.Options{Cores: 4, Local: true, Seed: 7}},
		{record.Manifest{Settings: map[string]string{"seed": "7"}, Machine: record.Machine{Cores: 4}},
			model.Options{Seed: 7}},
		{record.Manifest{}, model.Options{Seed: 1}},
	} {
		if got := modelOptions(&c.run); got != c.want {
			t.Errorf("%+v makes a model with %+v, not %+v", c.run, got, c.want)
		}
	}
}
