// A web server and its client in Go: `web serve ADDRESS PORT`, `web get URL COUNT`.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	where, number := os.Args[2], os.Args[3]
	if os.Args[1] == "serve" {
		body := make([]byte, 500_000)
		http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) { answer.Write(body) })
		panic(http.ListenAndServe(where+":"+number, nil))
	}
	count, _ := strconv.Atoi(number)
	began, got := time.Now(), int64(0)
	for range count {
		answer, err := http.Get(where)
		if err != nil {
			panic(err)
		}
		read, _ := io.Copy(io.Discard, answer.Body)
		got += read
	}
	took := time.Since(began).Seconds()
	fmt.Printf("bytes %d seconds %.9f rate %.6f\n", got, took, float64(got)*8e-6/took)
}
