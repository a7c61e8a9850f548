package main

import (
	"slices"
	"testing"
)

func TestSecretsStayOutOfARunDirectory(t *testing.T) {
	got := withoutSecrets([]string{"plimsoll", "load", "http://a/", "-H", "Authorization: Bearer abc",
		"--header", "X-Api-Key: abc", "--header=Cookie: abc",
		"-HX-Auth-Token:abc", "-H", "Accept: text/html",
		"--metrics", "http://me:abc@a/metrics?x=1", "--pprof=https://me:abc@a/", "--slo=p99<50ms"})
	want := []string{"plimsoll", "load", "http://a/", "-H", "Authorization: (left out)", "--header",
		"X-Api-Key: (left out)", "--header=Cookie: (left out)",
		"-HX-Auth-Token: (left out)", "-H", "Accept: text/html",
		"--metrics", "http://me:xxxxx@a/metrics?x=1", "--pprof=https://me:xxxxx@a/", "--slo=p99<50ms"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
