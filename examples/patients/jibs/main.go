// Command jibs tells what it costs to have a jib sewn. It asks a mill for the price of the cloth,
// and shows the mill who it is by a token, a JWT that is signed with RSA. A token is good for an
// hour, and a new one is signed for each request all the same. Only pprof is shown.
//
// Cured, a token is kept until a minute before its end.
package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"sync"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// takes is how long the mill is busy with a question, of which it answers many at once.
	takes, workers = 3 * time.Millisecond, 256
	good, early    = time.Hour, time.Minute
)

// header is the first part of each token.
var header = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`))

// claims are what a token says.
type claims struct {
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// account is what the loft has with the mill. Any goroutine may use it.
type account struct {
	key  *rsa.PrivateKey
	keep bool

	guard sync.RWMutex // of what follows
	kept  string
	until time.Time
}

// token returns a token that is good for at least a minute.
func (a *account) token() (string, error) {
	now := time.Now()
	if !a.keep {
		return a.sign(now)
	}
	a.guard.RLock()
	kept, until := a.kept, a.until
	a.guard.RUnlock()
	if now.Before(until) {
		return kept, nil
	}
	fresh, err := a.sign(now)
	if err != nil {
		return "", err
	}
	a.guard.Lock()
	a.kept, a.until = fresh, now.Add(good-early)
	a.guard.Unlock()
	return fresh, nil
}

// sign makes a token.
func (a *account) sign(now time.Time) (string, error) {
	says, err := json.Marshal(claims{"loft", "mill", now.Unix(), now.Add(good).Unix()})
	if err != nil {
		return "", err
	}
	text := header + "." + base64.RawURLEncoding.EncodeToString(says)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, a.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// loft answers what jibs cost.
type loft struct {
	account *account
	mill    string // its URL
	client  *http.Client
}

// cloth asks the mill for its prices.
func (l *loft) cloth(ctx context.Context) ([]byte, error) {
	token, err := l.account.token()
	if err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, l.mill, nil)
	if err != nil {
		return nil, err
	}
	question.Header.Set("Authorization", "Bearer "+token)
	answer, err := l.client.Do(question)
	if err != nil {
		return nil, fmt.Errorf("ask the mill: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the mill answered %s", answer.Status)
	}
	return io.ReadAll(answer.Body)
}

func (l *loft) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	prices, err := l.cloth(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintf(w, "%d panels, %d prices, offer %s\n", 8+mrand.IntN(20), len(prices), work.Do(2))
}

func open(p *ward.Patient) (http.Handler, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	mill, err := upstream.Start(p, workers, takes)
	if err != nil {
		return nil, err
	}
	return &loft{
		account: &account{key: key, keep: p.Cured},
		mill:    "http://" + mill.Address(),
		client: &http.Client{
			Timeout:   10 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute},
		},
	}, nil
}

func main() { upstream.Main(open) }
