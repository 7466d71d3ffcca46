// Package pools is the vocabulary of machines. A [Pool] consists of groups, a group of instances. A
// node is an instance as the scheduler reports it.
//
// Weight is what a machine adds to the pool's capacity. A target is the weight that Weirkeeper
// requests from the provider. Providers are in the packages below this one, and each of them passes
// the suite of package pooltest.
package pools
