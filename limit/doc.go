// Package limit holds cgroups to a bandwidth with eBPF, without the standing queue of a shaper.
//
// A scope is a cgroup with a rate per direction; scopes nest, and a socket is charged to at most four. [DataPlane] loads
// the programs, [DataPlane.Attach] puts them on a cgroup, and they cover every socket below it that is opened afterwards.
// limit.bpf.c states the algorithm.
//
// What will bite you: a socket keeps the cgroup it was opened in when its process moves. Loopback is not charged unless
// asked. Without a pin, the limit ends with the process that holds the DataPlane.
package limit
