package scenario_test

import (
	"net/http"
	"testing"

	"plimsoll/internal/demo"
)

// shop is a demo shop that answers at once and sells 5 of each item.
func shop(t *testing.T) http.HandlerFunc {
	t.Helper()
	return demo.NewShop(demo.NewStock(5), demo.Options{Name: "one"}).ServeHTTP
}
