package limit

import (
	"net/netip"

	"weir/internal/match"
)

func legacy(all match.Assignments) Assignments {
	a := Assignments{Cgroups: map[uint64]int{}, Users: map[uint32]int{}, Interfaces: map[int]int{}, Prefixes: map[netip.Prefix]int{}}
	for k, i := range all {
		switch k.Kind {
		case match.Cgroup:
			a.Cgroups[k.Number] = i
		case match.User:
			a.Users[uint32(k.Number)] = i
		case match.Interface:
			a.Interfaces[int(k.Number)] = i
		case match.Prefix:
			a.Prefixes[k.Prefix] = i
		}
	}
	return a
}
