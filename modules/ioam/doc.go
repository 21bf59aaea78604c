// SPDX-License-Identifier: Apache-2.0

// Package ioam is in situ OAM for IPv6 on a stock kernel: BPF programs at the devices of a host
// make it a node of an IOAM domain, which puts options into packets of scopes, records its data in
// those of others, and takes them out where the domain ends. modules/ioam/codec reads and writes
// the options, modules/ioam/collect what the data plane tells.
package ioam
