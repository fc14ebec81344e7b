// Package fanout predicts the latency of a request that makes several calls at once and waits
// for all of them, from the latencies of one call:
//
//	share of requests with a slow call = 1 - (1 - share of slow calls)^calls
//	q-quantile of requests             = q^(1/calls)-quantile of calls
//
// Both take the calls of a request for independent, and for alike. Calls that are slow together,
// as when one host serves them all and stalls, make fewer requests slow, by more each. The
// arithmetic is that of J. Dean and L. A. Barroso, The Tail at Scale (Communications of the ACM
// 56(2), 2013): 1 % of slow calls make 63 % of requests of 100 calls slow.
package fanout

import "math"

// SlowRequests is the share of requests of so many calls that have a slow one, where slow is the
// share of calls that are: both from 0 to 1.
func SlowRequests(slow float64, calls int) float64 {
	return -math.Expm1(float64(calls) * math.Log1p(-slow))
}

// Decisive is the quantile of one call that is the q-quantile of requests of so many calls: 0.9999
// for the p99 of 100.
func Decisive(q float64, calls int) float64 { return math.Pow(q, 1/float64(calls)) }
