// A WebRTC data channel with pion: `peer serve ADDRESS PORT` answers offers over HTTP, `peer send URL BYTES` makes one.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/pion/webrtc/v4"
)

const piece = 16 << 10

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func peer() *webrtc.PeerConnection {
	return must(webrtc.NewPeerConnection(webrtc.Configuration{}))
}

// describe sets the peer's own description and returns it with all candidates.
func describe(it *webrtc.PeerConnection, description webrtc.SessionDescription) []byte {
	done := webrtc.GatheringCompletePromise(it)
	must(0, it.SetLocalDescription(description))
	<-done
	return must(json.Marshal(it.LocalDescription()))
}

func serve(where string) {
	http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
		var offer webrtc.SessionDescription
		must(0, json.NewDecoder(request.Body).Decode(&offer))
		it := peer()
		it.OnDataChannel(func(channel *webrtc.DataChannel) {
			got, wanted := 0, -1
			channel.OnMessage(func(message webrtc.DataChannelMessage) {
				if message.IsString {
					wanted = must(strconv.Atoi(string(message.Data)))
				} else {
					got += len(message.Data)
				}
				if got == wanted {
					channel.SendText("all")
				}
			})
		})
		must(0, it.SetRemoteDescription(offer))
		must(answer.Write(describe(it, must(it.CreateAnswer(nil)))))
	})
	must(0, http.ListenAndServe(where, nil))
}

func send(url string, size int) {
	it := peer()
	channel := must(it.CreateDataChannel("data", nil))
	open, all := make(chan bool), make(chan bool)
	channel.OnOpen(func() { close(open) })
	channel.OnMessage(func(webrtc.DataChannelMessage) { close(all) })
	offer := describe(it, must(it.CreateOffer(nil)))
	reply := must(http.Post(url, "application/json", bytes.NewReader(offer)))
	var answer webrtc.SessionDescription
	must(0, json.NewDecoder(reply.Body).Decode(&answer))
	must(0, it.SetRemoteDescription(answer))
	<-open
	began := time.Now()
	must(0, channel.SendText(strconv.Itoa(size)))
	more := make(chan bool, 1)
	channel.SetBufferedAmountLowThreshold(4 * piece)
	channel.OnBufferedAmountLow(func() {
		select {
		case more <- true:
		default:
		}
	})
	for left := size; left > 0; left -= piece {
		must(0, channel.Send(make([]byte, min(left, piece))))
		if channel.BufferedAmount() > 16*piece {
			<-more
		}
	}
	<-all
	took := time.Since(began).Seconds()
	fmt.Printf("bytes %d seconds %.9f rate %.6f\n", size, took, float64(size)*8e-6/took)
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2] + ":" + os.Args[3])
	}
	send(os.Args[2], must(strconv.Atoi(os.Args[3])))
}
