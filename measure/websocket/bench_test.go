// SPDX-License-Identifier: Apache-2.0

package websocket_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"golang.org/x/sys/unix"

	"weir/measure/websocket"
)

// BenchmarkReceive receives clear binary messages of 1 MiB from a client on loopback, with this
// package and with the peer. ms-CPU/GB is the time of the receiving thread.
func BenchmarkReceive(b *testing.B) {
	b.Run("weir", func(b *testing.B) {
		benchmarkReceive(b, func(w http.ResponseWriter, r *http.Request) (func() error, error) {
			c, err := websocket.Upgrade(w, r, "test.v1", limits)
			return func() error { _, err := c.Next(); return err }, err
		})
	})
	b.Run("gorilla", func(b *testing.B) {
		upgrader := gorilla.Upgrader{Subprotocols: []string{"test.v1"}}
		benchmarkReceive(b, func(w http.ResponseWriter, r *http.Request) (func() error, error) {
			c, err := upgrader.Upgrade(w, r, nil)
			return func() error {
				_, message, err := c.NextReader()
				if err == nil {
					_, err = io.Copy(io.Discard, message)
				}
				return err
			}, err
		})
	})
}

func benchmarkReceive(b *testing.B, upgrade func(http.ResponseWriter, *http.Request) (next func() error, err error)) {
	const size = 1 << 20
	done := make(chan time.Duration, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		next, err := upgrade(w, r)
		before := threadTime()
		for i := 0; i < b.N && err == nil; i++ {
			err = next()
		}
		if err != nil {
			b.Error(err)
		}
		done <- threadTime() - before
	}))
	defer server.Close()
	dialer := gorilla.Dialer{Subprotocols: []string{"test.v1"}}
	c, _, err := dialer.Dial("ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	header := websocket.Header{Fin: true, Opcode: websocket.Binary, Masked: true, Key: [4]byte{1, 2, 3, 4}, Length: size}.Append(nil)
	payload := make([]byte, size)
	b.SetBytes(size)
	b.ResetTimer()
	for range b.N {
		frame := net.Buffers{header, payload}
		if _, err := frame.WriteTo(c.NetConn()); err != nil {
			b.Fatal(err)
		}
	}
	used := <-done
	b.ReportMetric(used.Seconds()*1e3/(float64(b.N)*size/1e9), "ms-CPU/GB")
}

// threadTime is the CPU time of this thread.
func threadTime() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
