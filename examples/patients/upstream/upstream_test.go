package upstream

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSoManyAreServedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(2, 5*time.Millisecond)
		began := time.Now()
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				w := httptest.NewRecorder()
				h(w, httptest.NewRequest("GET", "/", nil))
				if w.Code != http.StatusOK || w.Body.Len() != answerSize {
					t.Errorf("it answers %d with %d bytes", w.Code, w.Body.Len())
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 15*time.Millisecond {
			t.Errorf("six requests of 5 ms took two workers %v", took)
		}
	})
}

func TestWhoGoesAwayWhileHeWaitsIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(1, time.Second)
		var first sync.WaitGroup
		first.Go(func() { h(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) })
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		h(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		if took := time.Since(began); took != time.Millisecond || w.Body.Len() > 0 {
			t.Errorf("after %v it has %d bytes", took, w.Body.Len())
		}
		first.Wait()
	})
}

func TestItServesUntilItsInputEnds(t *testing.T) {
	in, closing := io.Pipe()
	said, out := io.Pipe()
	over := make(chan error, 1)
	go func() { over <- serve("1 1ms", in, out) }()
	address, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	u := to(strings.TrimSpace(address))
	if answer, err := u.Ask(t.Context()); err != nil || len(answer) != answerSize {
		t.Errorf("it answers %d bytes, %v", len(answer), err)
	}
	closing.Close()
	if err := <-over; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := u.Ask(t.Context()); err == nil {
		t.Error("it answers when it has ended")
	}
}

func TestAnUpstreamThatMakesNoSenseIsRefused(t *testing.T) {
	for _, which := range []string{"", "4", "x 1ms", "0 1ms", "4 long"} {
		if err := serve(which, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("%q was served", which)
		}
	}
}
