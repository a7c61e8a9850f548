package http1_test

import (
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
)

const smallRequest = "GET /api/v1/users/42 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: wrk\r\nAccept: */*\r\n\r\n"

const browserRequest = "GET /api/v1/users/42?tab=orders&page=3 HTTP/1.1\r\n" +
	"Host: shop.example.com\r\n" +
	"Connection: keep-alive\r\n" +
	"sec-ch-ua: \"Chromium\";v=\"126\", \"Google Chrome\";v=\"126\", \"Not-A.Brand\";v=\"8\"\r\n" +
	"sec-ch-ua-mobile: ?0\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
	"Sec-Fetch-Site: same-origin\r\n" +
	"Sec-Fetch-Mode: navigate\r\n" +
	"Referer: https://shop.example.com/api/v1/users/\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; seen=1\r\n\r\n"

const usualResponse = "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 05 Oct 2026 10:00:00 GMT\r\n" +
	"Content-Type: application/json\r\nContent-Length: 128\r\nConnection: keep-alive\r\nCache-Control: no-store\r\n\r\n"

var usualLimits = http1.Limits{Line: 8 << 10, Head: 32 << 10, Fields: 100, Extension: 1 << 10}

func BenchmarkRequest(b *testing.B) {
	for name, text := range map[string]string{"small": smallRequest, "browser": browserRequest} {
		b.Run(name, func(b *testing.B) {
			var r http1.Request
			buf := []byte(text)
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset()
				if n, _ := r.Parse(buf, &usualLimits); n != len(buf) {
					b.Fatal("not parsed")
				}
			}
		})
	}
}

func BenchmarkResponse(b *testing.B) {
	var r http1.Response
	buf := []byte(usualResponse)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		if n, _ := r.Parse(buf, &usualLimits, false); n != len(buf) {
			b.Fatal("not parsed")
		}
	}
}

func BenchmarkAppendFields(b *testing.B) {
	for name, text := range map[string]string{"small": smallRequest, "browser": browserRequest} {
		b.Run(name, func(b *testing.B) {
			var r http1.Request
			r.Parse([]byte(text), &usualLimits)
			dst := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				dst = http1.AppendFields(dst[:0], &r.Fields, http1.HopByHop|1<<head.ContentLength)
			}
		})
	}
}

func BenchmarkChunked(b *testing.B) {
	in := []byte("400\r\n" + string(make([]byte, 1024)) + "\r\n0\r\n\r\n")
	var d http1.Body
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		d.Start(http1.Chunked, 0, &usualLimits)
		for rest := in; !d.Done(); {
			_, n, err := d.Next(rest)
			if err != http1.OK {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
	}
}
