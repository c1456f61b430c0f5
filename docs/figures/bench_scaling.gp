# How many times faster calls are on more threads. bench_scaling.dat has a column for each; gnuplot bench_scaling.gp in its
# folder draws it again.
set terminal svg noenhanced size 960,520 font "sans-serif,13" background "white"
set output "bench_scaling.svg"
set logscale xy 2
set xrange [1:16]
set yrange [0.9:18]
set xlabel "threads"
set ylabel "times faster than one thread" offset 1,0
set grid xtics ytics linecolor rgb "#dddddd"
set key outside right samplen 2
array cases[9] = ["circe_cached_4096_64", "circe_cached_1024_64", "circe_raw_1024_1", "hscic_1024_10d", "gcm_1024_10d", \
                  "fit_dense_2000", "fit_1000000", "test_kci_4000", "test_rcot_100000"]
array titles[9] = ["CIRCE, B = 4096, d_x = 64", "CIRCE, B = 1024, d_x = 64", "CIRCE raw, B = 1024, d_x = 1", \
                   "HSCIC, 10-D y and z", "GCM, 10-D y and z", "dense fit, 2,000 rows", "fit, a million rows", \
                   "KCI test, 4,000 rows", "RCoT, 100,000 rows"]
array colours[9] = ["#1f5fa8", "#5b9bd5", "#9dc3e6", "#c04f15", "#e08a5b", "#3b7d23", "#8cc07a", "#7b4fa0", "#b58fd0"]
plot x linecolor rgb "#999999" dashtype 2 title "as many times", \
     "bench_scaling.dat" using 1:(column("separate_processes")) with lines linecolor rgb "#333333" linewidth 2 dashtype 3 \
         title "limit: loops in separate processes", \
     "bench_scaling.dat" using 1:(column("separate_products")) with lines linecolor rgb "#999999" linewidth 2 dashtype 3 \
         title "limit: products in separate processes", \
     for [k=1:9] "bench_scaling.dat" using 1:(column(cases[k])) with linespoints linecolor rgb colours[k] linewidth 2 \
         pointtype 7 pointsize 0.5 title titles[k]
