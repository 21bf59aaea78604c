// SPDX-License-Identifier: Apache-2.0

// Package config reads the exchange file: sponsors with their ports, members, and the settings of
// the path choice.
//
// [Parse] reports all mistakes at once, each with its place, as one fault of status Usage.
//
// Pitfall: sponsors and members keep the file's order. The choice does not depend on that order;
// numbers of ports in a running server do.
package config

import (
	"net/netip"
	"time"

	"weir/internal/infile"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/ix/choose"
)

// Exchange is a validated exchange file.
type Exchange struct {
	Name     string
	AS       uint32
	RouterID netip.Addr     // zero if the file has none
	LANs     []netip.Prefix // none: addresses are not checked against the LAN
	Feed     Feed
	Listen   []netip.Addr
	Choose   Choose
	Sponsors []Sponsor // in file order
	Members  []Member  // in file order
}

// Feed is the source of the paths: a session with BIRD, or a file.
type Feed struct {
	Bird, Local netip.Addr // zero without a session
	Password    string     // of TCP MD5; "" for none
	RIB         string     // path of an MRT file; "" for none
}

// Choose holds the settings of the path choice.
type Choose struct {
	Paths     int // for members without their own number
	Tolerance int // AS hops
	Diverse   bool
	Prefer    choose.Prefer
	Stale     time.Duration // paths are kept as long after the loss of the feed
}

// Sponsor is a transit sponsor.
type Sponsor struct {
	Name    string
	AS      uint32
	Ports   []Port
	Only    []string // members with consent; nil for all
	Drained bool     // its paths come last
}

// Port is one port of a sponsor.
type Port struct {
	Name      string
	Addresses []netip.Addr // next hops of its paths
	Rate      units.BitRate
	Place     string // "" for none
	Drained   bool
}

// Member is a member of the exchange.
type Member struct {
	Name      string
	AS        uint32
	Addresses []netip.Addr
	Place     string // "" for none
	Paths     int
	Without   []string // sponsors that the member rejects
	Small     bool     // omit more-specifics with the paths of their covering prefix

	Password    string // of TCP MD5; "" for none
	TTLSecurity bool   // accept packets of neighbors on the link only (GTSM, RFC 5082)
}

// Limits of a file, far above a large exchange.
const (
	maxFile   = 8 << 20
	maxValues = 500_000
)

var kind = infile.Kind{What: "exchange file", Most: maxFile, Name: "name an exchange file, as in docs/guides/exchange.md", Larger: "leave comments out"}

// Read returns the text of an exchange file.
func Read(filename string) ([]byte, error) { return kind.Read(filename) }

// Load reads a file. Its errors are those of [Parse], and faults for a file that is not readable.
func Load(filename string) (*Exchange, error) {
	text, err := kind.Read(filename)
	if err != nil {
		return nil, err
	}
	return Parse(filename, text)
}

// Parse reads the text of a file. Its errors are faults of status Usage with the place of every
// mistake.
func Parse(filename string, text []byte) (*Exchange, error) {
	tree, err := yamlfile.ParseWithin(yamlfile.Limits{Octets: maxFile, Values: maxValues, Line: true}, filename, text)
	if err != nil {
		return nil, err
	}
	r := reader{addresses: map[netip.Addr]string{}}
	tree.Decode(&r.file, nil, &r.Problems)
	e := r.exchange()
	if err := r.Err("correct the file at the places named"); err != nil {
		return nil, err
	}
	return e, nil
}
