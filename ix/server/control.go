// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"weir/internal/fault"
	"weir/internal/listen"
)

// Order is a command to a running server.
type Order struct {
	Name    string `json:"name,omitempty"` // of a sponsor or port
	Drained bool   `json:"drained"`
	Message string `json:"message,omitempty"` // to the members' operators
}

// answer is the reply to an order.
type answer struct {
	Error string       `json:"error,omitempty"`
	Try   string       `json:"try,omitempty"`
	Kind  fault.Status `json:"status"`
}

const maxOrder = 64 << 10 // bytes

// Control serves status and orders on a unix socket with mode 0600 until ctx ends. stop is called
// by an order to stop.
func (s *Server) Control(ctx context.Context, socket string, stop func()) error {
	l, err := listen.Unix("unix", socket)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.Status()) })
	mux.HandleFunc("POST /drain", order(func(o Order) error { return s.Drain(o.Name, o.Drained) }))
	mux.HandleFunc("POST /stop", order(func(o Order) error { s.Stop(o.Message); stop(); return nil }))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(grace)
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func order(f func(Order) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var o Order
		err := json.NewDecoder(io.LimitReader(r.Body, maxOrder)).Decode(&o)
		if err == nil {
			err = f(o)
		}
		if err != nil {
			reply(w, answer{err.Error(), fault.Advice(err), fault.Of(err)})
			return
		}
		reply(w, answer{})
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}

// Client is the control connection to a running server.
type Client struct{ Socket string }

func (c Client) do(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", c.Socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, method, "http://weir"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fault.New(fault.Failed, "start `weir ix serve FILE`, or name its --socket", "no path server answers at %s: %w", c.Socket, errors.Unwrap(err))
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer of the path server: %w", err)
	}
	return nil
}

// Status returns the state of the server.
func (c Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.do(ctx, http.MethodGet, "/status", nil, &s)
}

// Drain sets or ends the drained state of a sponsor or port.
func (c Client) Drain(ctx context.Context, name string, drained bool) error {
	return c.order(ctx, "/drain", Order{Name: name, Drained: drained})
}

// Stop ends the server, and its sessions with a message to the members' operators.
func (c Client) Stop(ctx context.Context, message string) error {
	return c.order(ctx, "/stop", Order{Message: message})
}

func (c Client) order(ctx context.Context, path string, o Order) error {
	var a answer
	if err := c.do(ctx, http.MethodPost, path, o, &a); err != nil {
		return err
	}
	if a.Error != "" {
		return fault.New(a.Kind, a.Try, "%s", a.Error)
	}
	return nil
}
