package demo_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/demo"
)

func ask(shop http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	shop.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestTheShopAnswersItsRoutes(t *testing.T) {
	shop := demo.NewShop(demo.NewStock(1), demo.Options{Name: "a"})
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/api/v1/items", 200, `"id":"8"`},
		{"GET", "/api/v1/items/1", 200, `"name":"brass sextant"`},
		{"GET", "/api/v1/items/9", 404, "no such item"},
		{"POST", "/api/v1/items/1/buy", 200, `"left":0`},
		{"POST", "/api/v1/items/1/buy", 409, "sold out"},
		{"POST", "/api/v1/items/9/buy", 404, "no such item"},
		{"GET", "/api/v1/items/1/buy", 405, ""},
		{"GET", "/healthz", 200, `"status":"ok"`},
		{"GET", "/healthz/deep", 200, `"instance":"a"`},
	} {
		w := ask(shop, c.method, c.path)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s: %d %q, want %d and %q", c.method, c.path, w.Code, w.Body, c.status, c.body)
		}
		if got := w.Header().Get("X-Instance"); got != "a" {
			t.Errorf("%s %s: X-Instance %q, want a", c.method, c.path, got)
		}
	}
}

func TestExactlyTheStockIsSoldOverTwoInstances(t *testing.T) {
	const stock, buyers = 37, 200
	shelves := demo.NewStock(stock)
	shops := []*demo.Shop{demo.NewShop(shelves, demo.Options{}), demo.NewShop(shelves, demo.Options{})}
	var sold, refused, other atomic.Int64
	var all sync.WaitGroup
	for i := range buyers {
		all.Go(func() {
			switch ask(shops[i%2], "POST", "/api/v1/items/5/buy").Code {
			case 200:
				sold.Add(1)
			case 409:
				refused.Add(1)
			default:
				other.Add(1)
			}
		})
	}
	all.Wait()
	if sold.Load() != stock || refused.Load() != buyers-stock || other.Load() != 0 {
		t.Errorf("sold %d, refused %d, other %d; want %d, %d, 0", sold.Load(), refused.Load(), other.Load(), stock, buyers-stock)
	}
	if item, _ := shelves.Item("5"); item.Left != 0 {
		t.Errorf("%d left after the sale, want 0", item.Left)
	}
}

func TestAnOrderThatBreaksOffSellsNothing(t *testing.T) {
	stock := demo.NewStock(1)
	shop := demo.NewShop(stock, demo.Options{})
	w := httptest.NewRecorder()
	shop.ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/items/1/buy", strings.NewReader(strings.Repeat("x", 1<<20))))
	if item, _ := stock.Item("1"); w.Code != 400 || item.Left != 1 {
		t.Errorf("status %d with %d left, want 400 with 1", w.Code, item.Left)
	}
}

func times(o demo.Options, n int) []time.Duration {
	var took []time.Duration
	shop := demo.NewShop(demo.NewStock(1), o)
	for range n {
		began := time.Now()
		ask(shop, "GET", "/api/v1/items/1")
		took = append(took, time.Since(began))
	}
	return took
}

func TestAConstantServiceTimeIsTakenExactlyAndSlowedByTheFactor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := times(demo.Options{ServiceTime: 4 * time.Millisecond}, 1)[0]; got != 4*time.Millisecond {
			t.Errorf("took %v, want 4ms", got)
		}
		if got := times(demo.Options{ServiceTime: 4 * time.Millisecond, SlowFactor: 2.5}, 1)[0]; got != 10*time.Millisecond {
			t.Errorf("slowed: took %v, want 10ms", got)
		}
	})
}

func TestExponentialServiceTimesFollowTheirSeedAndMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := demo.Options{ServiceTime: time.Millisecond, Exponential: true, Seed: 7}
		first, again := times(o, 2000), times(o, 2000)
		var sum time.Duration
		for i, d := range first {
			if d != again[i] {
				t.Fatalf("draw %d: %v and %v from the same seed", i, d, again[i])
			}
			if d > 10*time.Millisecond {
				t.Errorf("draw %d: %v is more than ten means", i, d)
			}
			sum += d
		}
		if mean := sum / 2000; mean < 900*time.Microsecond || mean > 1100*time.Microsecond {
			t.Errorf("mean of 2,000 draws is %v, want about 1ms", mean)
		}
		o.Seed = 8
		if other := times(o, 1)[0]; other == first[0] {
			t.Errorf("another seed drew the same %v", other)
		}
	})
}

func TestHealthzTakesNoServiceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := demo.NewShop(demo.NewStock(1), demo.Options{ServiceTime: time.Hour})
		began := time.Now()
		ask(shop, "GET", "/healthz")
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v, want nothing", took)
		}
	})
}

func TestABuyerWhoLeavesBeforeHisTurnBuysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stock := demo.NewStock(1)
		shop := demo.NewShop(stock, demo.Options{ServiceTime: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		shop.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", "/api/v1/items/1/buy", nil))
		if item, _ := stock.Item("1"); item.Left != 1 {
			t.Errorf("%d left, want 1", item.Left)
		}
	})
}

func TestRequestsOfAllInstancesTakeTurnsOnTheDatabasesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stock := demo.NewStock(1)
		stock.Connect(2)
		o := demo.Options{ServiceTime: 4 * time.Millisecond}
		shops := []*demo.Shop{demo.NewShop(stock, o), demo.NewShop(stock, o)}
		began := time.Now()
		var asking sync.WaitGroup
		for i := range 6 {
			asking.Go(func() { ask(shops[i%2], "GET", "/api/v1/items/1") })
		}
		asking.Wait()
		if took := time.Since(began); took != 12*time.Millisecond {
			t.Errorf("6 requests of 4ms over 2 connections took %v, want 12ms", took)
		}
	})
}

func TestABuyerWhoLeavesTheQueueTakesNoConnectionWithHim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stock := demo.NewStock(1)
		stock.Connect(1)
		shop := demo.NewShop(stock, demo.Options{ServiceTime: time.Second})
		var asking sync.WaitGroup
		asking.Go(func() { ask(shop, "GET", "/api/v1/items/1") })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		shop.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", "/api/v1/items/1/buy", nil))
		asking.Wait()
		if status := ask(shop, "POST", "/api/v1/items/1/buy").Code; status != http.StatusOK {
			t.Errorf("the next buyer got %d", status)
		}
	})
}

func TestInstancesServeUntilClosed(t *testing.T) {
	in, err := demo.Open(demo.NewStock(3), demo.Options{Name: "a"}, demo.Options{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b"} {
		response, err := http.Get("http://" + in.Targets()[i] + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]string
		err = json.NewDecoder(response.Body).Decode(&body)
		response.Body.Close()
		if err != nil || body["instance"] != name {
			t.Errorf("target %d answered %v (%v), want instance %s", i, body, err, name)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := in.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if response, err := http.Get("http://" + in.Targets()[0] + "/healthz"); err == nil {
		response.Body.Close()
		t.Error("still served after Close")
	}
}
