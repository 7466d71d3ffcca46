// Package pools is the vocabulary of machines: a [Pool] is made of groups, a
// group of instances, and a node is an instance as the scheduler sees it.
//
// Weight is what a machine gives to the pool's capacity, target what we ask the
// provider for. Providers live in the packages below, all of them pass the
// suite of package pooltest.
package pools
