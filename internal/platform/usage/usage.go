// Package usage marks errors that the user of a command has caused.
package usage
