// SPDX-License-Identifier: Apache-2.0

// Package ioam is the policy module for in situ OAM (IOAM) of IPv6: the keys of policies and
// scenarios. Package node makes a host a node of an IOAM domain, package codec reads and writes the
// options, and packages collect and evidence aggregate exported records.
package ioam
