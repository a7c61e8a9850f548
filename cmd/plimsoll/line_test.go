package main

import (
	"testing"

	"plimsoll/internal/lab/record"
	"plimsoll/internal/loadline"
)

func TestTheGatewayReadsTheLineThatASurveyExports(t *testing.T) {
	run, err := record.Open(plannable(t, true, usualLine))
	if err != nil {
		t.Fatal(err)
	}
	run.Manifest.Target = "http://10.0.0.1/"
	text, err := record.Export(run)
	if err != nil {
		t.Fatal(err)
	}
	line, err := loadline.ReadLine(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want := run.Result.Line.Interval
	if line.Rate != (loadline.Interval{Low: want.Low, Estimate: want.Estimate, High: want.High}) ||
		line.Target != "10.0.0.1:80" || !line.Measured.Equal(run.Result.Ended) ||
		line.Host != run.Manifest.Machine.Host {
		t.Errorf("%+v of\n%s", line, text)
	}
}
