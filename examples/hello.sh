#!/bin/sh
echo "Hello from the shell!"
