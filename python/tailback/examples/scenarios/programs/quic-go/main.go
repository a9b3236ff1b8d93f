// Requests over quic-go with real TLS: `quic serve ADDRESS PORT`, `quic get ADDRESS:PORT COUNT`.
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
)

const answer = 500_000

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func certificate() tls.Certificate {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(0, err)
	until := time.Now().Add(24 * time.Hour)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: until}
	return tls.Certificate{
		Certificate: [][]byte{must(x509.CreateCertificate(rand.Reader, about, about, public, private))},
		PrivateKey:  private,
	}
}

func serve(where string) {
	settings := &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"example"}}
	listener := must(quic.ListenAddr(where, settings, nil))
	body := make([]byte, answer)
	for {
		connection := must(listener.Accept(context.Background()))
		go func() {
			for {
				stream, err := connection.AcceptStream(context.Background())
				if err != nil {
					return
				}
				io.Copy(io.Discard, stream)
				stream.Write(body)
				stream.Close()
			}
		}()
	}
}

func get(where string, count int) {
	settings := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"example"}}
	began, got := time.Now(), int64(0)
	connection := must(quic.DialAddr(context.Background(), where, settings, nil))
	for range count {
		stream := must(connection.OpenStreamSync(context.Background()))
		must(stream.Write([]byte("more")))
		stream.Close()
		got += must(io.Copy(io.Discard, stream))
	}
	took := time.Since(began).Seconds()
	connection.CloseWithError(0, "")
	fmt.Printf("bytes %d seconds %.9f rate %.6f\n", got, took, float64(got)*8e-6/took)
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2] + ":" + os.Args[3])
	}
	get(os.Args[2], must(strconv.Atoi(os.Args[3])))
}
