// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 defines the accept value with SHA-1
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // RFC 6455, section 1.3

func accept(key string) string {
	sum := sha1.Sum([]byte(key + acceptGUID))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// hasToken reports whether a comma-separated header has the token.
func hasToken(values []string, token string) bool {
	for _, value := range values {
		for _, word := range strings.Split(value, ",") {
			if strings.EqualFold(strings.TrimSpace(word), token) {
				return true
			}
		}
	}
	return false
}

// CheckUpgrade reports why a request is no opening handshake for the subprotocol (RFC 6455, section
// 4.2.1), as a reason for people; "" if it is one.
func CheckUpgrade(r *http.Request, protocol string) (reason string) {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case r.Method != http.MethodGet:
		return "the method is " + r.Method + ", not GET"
	case !hasToken(r.Header.Values("Connection"), "upgrade") || !hasToken(r.Header.Values("Upgrade"), "websocket"):
		return "the request is no WebSocket upgrade: Connection: Upgrade or Upgrade: websocket is missing"
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return "Sec-WebSocket-Version is not 13"
	case err != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1:
		return "Sec-WebSocket-Key is not 16 bytes in base64"
	case !hasToken(r.Header.Values("Sec-WebSocket-Protocol"), protocol):
		return "Sec-WebSocket-Protocol does not offer " + protocol
	}
	return ""
}

// Upgrade answers an opening handshake that [CheckUpgrade] accepted. After an error the connection
// is closed or not hijacked.
func Upgrade(w http.ResponseWriter, r *http.Request, protocol string, limits Limits) (*Conn, error) {
	hijacker, is := w.(http.Hijacker)
	if !is {
		return nil, errors.New("upgrade: the connection cannot change its protocol; use HTTP/1.1")
	}
	stream, buffered, err := hijacker.Hijack()
	if err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	c, err := newConn(stream, false, limits, early)
	if err == nil {
		_ = stream.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = io.WriteString(stream, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Accept: "+accept(r.Header.Get("Sec-WebSocket-Key"))+"\r\nSec-WebSocket-Protocol: "+protocol+"\r\n\r\n")
	}
	if err == nil {
		err = c.flushed()
	}
	if err != nil {
		_ = stream.Close()
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	_ = stream.SetDeadline(time.Time{})
	return c, nil
}

// Refused is the answer of a server that does not upgrade.
type Refused struct {
	Status     int
	RetryAfter string // header field; "" if it is missing
	Body       string // at most 4 KiB
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the server answered %d %s", r.Status, http.StatusText(r.Status))
}

// Dial makes the opening handshake of a client on an open stream (RFC 6455, section 4.1). It
// returns a [*Refused] if the server answers with another status than 101.
func Dial(ctx context.Context, stream net.Conn, u *url.URL, protocol, agent string, limits Limits) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never returns an error
	key := base64.StdEncoding.EncodeToString(nonce)
	request := "GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: " + key + "\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: " + protocol + "\r\nUser-Agent: " + agent + "\r\n\r\n"
	if _, err := io.WriteString(stream, request); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	reader := bufio.NewReaderSize(io.LimitReader(stream, 64<<10), bufferSize)
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, &Refused{Status: response.StatusCode, RetryAfter: response.Header.Get("Retry-After"), Body: string(body)}
	}
	switch {
	case !hasToken(response.Header.Values("Upgrade"), "websocket") || !hasToken(response.Header.Values("Connection"), "upgrade"):
		return nil, violation("the answer to the handshake lacks Upgrade: websocket or Connection: Upgrade")
	case response.Header.Get("Sec-WebSocket-Accept") != accept(key):
		return nil, violation("the answer to the handshake has a wrong Sec-WebSocket-Accept")
	case response.Header.Get("Sec-WebSocket-Protocol") != protocol:
		return nil, violation("the server chose the subprotocol %q, not %s", response.Header.Get("Sec-WebSocket-Protocol"), protocol)
	case response.Header.Get("Sec-WebSocket-Extensions") != "":
		return nil, violation("the server chose an extension that was not offered")
	}
	early, _ := reader.Peek(reader.Buffered())
	return newConn(stream, true, limits, early)
}

// nested returns the stream below TLS, or nil.
func nested(stream net.Conn) net.Conn {
	if n, is := stream.(interface{ NetConn() net.Conn }); is {
		return n.NetConn()
	}
	return nil
}
