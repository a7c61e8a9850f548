package report

import "testing"

func TestASentenceBeginsWithACapitalUnlessAnObjectiveBeginsIt(t *testing.T) {
	for words, want := range map[string]string{
		"":                          "",
		"every objective is met":    "Every objective is met.",
		"is it?":                    "Is it?",
		"p99<50ms sets it":          "p99<50ms sets it.",
		"db.wait_seconds is lower":  "db.wait_seconds is lower.",
		"2 times 198, which was ok": "2 times 198, which was ok.",
	} {
		if got := sentence(words); got != want {
			t.Errorf("%q becomes %q, want %q", words, got, want)
		}
	}
}
