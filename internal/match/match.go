// Package match names what a data plane can tell traffic by.
package match

import (
	"fmt"
	"net/netip"
)

// Kind is one way to tell traffic.
type Kind string

const (
	Cgroup    Kind = "cgroup"
	User      Kind = "user"
	Interface Kind = "interface"
	Prefix    Kind = "prefix"
	Netns     Kind = "netns"
	Mark      Kind = "mark"
)

// Key is one thing that traffic is told by; comparable.
type Key struct {
	Kind   Kind         `json:"kind,omitempty"`
	Number uint64       `json:"number,omitempty"`
	Prefix netip.Prefix `json:"prefix,omitzero"`
}

// Assignments are the numbers of the scopes that apply.
type Assignments map[Key]int

func (k Key) String() string {
	switch k.Kind {
	case Cgroup:
		return fmt.Sprintf("cgroup id %d and below", k.Number)
	case User:
		return "the socket's user"
	case Interface:
		return fmt.Sprintf("interface index %d", k.Number)
	case Prefix:
		return "longest remote prefix"
	case Netns:
		return fmt.Sprintf("network namespace cookie %d", k.Number)
	case Mark:
		return fmt.Sprintf("socket mark %#x", k.Number)
	}
	return ""
}
