package scenario_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// jsonField is a field of a JSON object as text.
func jsonField(t testing.TB, body []byte, name string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return fmt.Sprint(object[name])
}
