package main

import (
	"encoding/json"
	"strconv"
	"time"
)

// answers encodes what the client is told.
type answers interface {
	// encode may use the basket's buffer, and what it returns is valid as long as the basket is.
	encode(b *basket, receipt string) []byte
}

func newAnswers(changed bool) answers {
	if changed {
		return appended{}
	}
	return reflected{}
}

// reflected is the first day: a map of anything, made readable for people whom no answer ever
// reaches.
type reflected struct{}

func (reflected) encode(b *basket, receipt string) []byte {
	items := make([]map[string]any, len(b.lines))
	for i, l := range b.lines {
		items[i] = map[string]any{
			"article":  l.article,
			"name":     l.name,
			"price":    l.price,
			"currency": "EUR",
			"tax":      l.price * .19,
		}
	}
	out, err := json.MarshalIndent(map[string]any{
		"receipt": receipt,
		"left":    b.left,
		"at":      time.Now().Format(time.RFC3339Nano),
		"items":   items,
	}, "", "    ")
	if err != nil {
		return []byte("{}")
	}
	return out
}

// appended writes the same fields into the basket's buffer.
type appended struct{}

func (appended) encode(b *basket, receipt string) []byte {
	out := append(b.text[:0], `{"receipt":`...)
	out = strconv.AppendQuote(out, receipt)
	out = append(out, `,"left":`...)
	out = strconv.AppendInt(out, b.left, 10)
	out = append(out, `,"at":"`...)
	out = time.Now().AppendFormat(out, time.RFC3339Nano)
	out = append(out, `","items":[`...)
	for i, l := range b.lines {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"article":`...)
		out = strconv.AppendInt(out, int64(l.article), 10)
		out = append(out, `,"name":`...)
		out = strconv.AppendQuote(out, l.name)
		out = append(out, `,"price":`...)
		out = strconv.AppendFloat(out, l.price, 'f', 2, 64)
		out = append(out, `,"currency":"EUR","tax":`...)
		out = strconv.AppendFloat(out, l.price*.19, 'f', 2, 64)
		out = append(out, '}')
	}
	b.text = append(out, "]}"...)
	return b.text
}
