package proxy

import "testing"

// BenchmarkScan is what a scanner costs a request of a browser.
func BenchmarkScan(b *testing.B) {
	request := []byte("GET /some/path?with=query HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive\r\nsec-ch-ua-platform: \"Linux\"\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
		"Accept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nCookie: session=0123456789abcdef0123456789abcdef\r\n\r\n")
	s := new(scanner)
	b.ReportAllocs()
	b.SetBytes(int64(len(request)))
	for b.Loop() {
		if s.scan(request) != len(request) || s.failed != nil {
			b.Fatal(s.failed)
		}
	}
}
