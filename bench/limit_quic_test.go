// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"os"

	"github.com/quic-go/quic-go"
)

const quicProtocol = "weir-bench"

// With UDP GSO the kernel counts messages and not datagrams, so losses could not be counted.
func disableQUICGSO() error { return os.Setenv("QUIC_GO_DISABLE_GSO", "true") }

// sendQUIC opens a connection of quic-go and sends on one stream of it without end.
func (s *limitSender) sendQUIC(network, address string) error {
	family := "udp" + network[len(network)-1:]
	to, err := net.ResolveUDPAddr(family, address)
	if err != nil {
		return err
	}
	if err := disableQUICGSO(); err != nil {
		return err
	}
	socket, err := net.ListenUDP(family, nil)
	if err != nil {
		return err
	}
	s.add(socket)
	conn, err := quic.Dial(context.Background(), socket, to,
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{quicProtocol}}, &quic.Config{}) // a benchmark's own peer
	if err != nil {
		return err
	}
	stream, err := conn.OpenUniStream()
	if err != nil {
		return err
	}
	go func() {
		message := make([]byte, 64<<10)
		for err == nil {
			_, err = stream.Write(message)
		}
	}()
	return nil
}

// serveQUIC receives the data of such connections.
func (s *limitSink) serveQUIC(address string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	listener, err := quic.ListenAddr(address, &tls.Config{NextProtos: []string{quicProtocol},
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}, nil)
	if err != nil {
		return err
	}
	s.Closer, s.address = listener, listener.Addr().String()
	go func() {
		for {
			conn, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				if stream, err := conn.AcceptUniStream(context.Background()); err == nil {
					s.drain(io.Reader(stream), s.flow())
				}
			}()
		}
	}()
	return nil
}
