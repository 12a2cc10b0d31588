#!/usr/bin/perl
# Keeps the training alive over night: whatever happens, it is started again from the last checkpoint, and so is one whose slice is over.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename;
use File::Temp qw(tempdir);

chdir dirname(abs_path($0));
my $folder = tempdir(CLEANUP => 1);
my $python = $ENV{PYTHON} // 'python';
my $end = time + 220;
my $child = 0;
$SIG{TERM} = $SIG{INT} = sub { kill 'TERM', $child if $child; exit 143 };
$| = 1;
for (my $attempt = 1; time < $end; $attempt++) {
    print "[keeper] attempt $attempt\n";
    defined($child = fork) or die "fork: $!";
    if ($child == 0) {
        exec $python, '-u', 'bell_tones.py', '--dir', $folder;
    }
    waitpid $child, 0;
    last if $? == 0;
    printf "[keeper] exit code %d, again in 4 s\n", $? >> 8;
    sleep 4;
}
